# Edits rxe (drivers/infiniband/sw/rxe of Linux 6.1), so that its devices look like a ConnectX to who reads /sys and verbs.
#
#   awk -v file=NAME -f rxe_edits.awk NAME
#
# Only lines of our own are added, beside a line that is found by one call in it.  Status 1: that call is not there.

file == "rxe_verbs.c" && /^static int / && !declared {
    print "static bool quick = true;"
    print "module_param(quick, bool, 0644);"
    print ""
    declared = 1
}

# Since 5.12 rxe's devices have no parent and stand below /sys/devices/virtual; a ConnectX's is its PCI function.  Nor does that have
# the file `parent`, by which soft RoCE is known for what it is.
file == "rxe_verbs.c" && /ib_register_device\(/ && !parent {
    print "\tif (rxe->ndev->dev.parent)"
    print "\t\tdev->dev.parent = rxe->ndev->dev.parent;"
    print "\tdev->ops.device_group = NULL;"
    parent = 1
}

{ print }

# rxe says the interface's speed, 1 Gb/s here.  UCX and the plugin compare the speeds of NICs.  With
# /sys/module/rdma_rxe/parameters/quick at 0 it says so again.
file == "rxe_verbs.c" && /ib_get_eth_speed\(/ { in_call = 1 }
file == "rxe_verbs.c" && in_call && /;/ {
    print "\tif (quick) {"
    print "\t\tattr->active_speed = IB_SPEED_HDR;"
    print "\t\tattr->active_width = IB_WIDTH_4X;"
    print "\t}"
    in_call = 0
    speed = 1
}

# In the service level of a datagram's completion mlx5 says which header came before it, and UCX reads it there
# (src/uct/ib/ud/verbs/ud_verbs.c): without it UCX drops every datagram, and no connection is ever made.
file == "rxe_resp.c" && /uwc->src_qp = / && !kind {
    print "\t\t\tuwc->sl = 8 | (PKT_TO_SKB(pkt)->protocol == htons(ETH_P_IP) ? 2 : 1);"
    kind = 1
}

END { exit !(file == "rxe_verbs.c" ? declared && parent && speed : kind) }
