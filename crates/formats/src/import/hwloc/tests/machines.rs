//! Invented machines in hwloc's XML, one for each version of the format.

/// Two packages of two cores.  The first has a GPU with memory of its own, a switch with a GPU and a NIC, and a second NIC on
/// the same host bridge; the second a partitioned GPU next to a Slingshot NIC.  An EFA has no package near it.
pub const VERSION_2: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x000000ff" gp_index="1">
    <info name="DMIProductName" value="Box 9000 (rev. A)"/>
    <info name="Backend" value="Linux"/>
    <object type="Package" os_index="0" cpuset="0x0000000f" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x0000000f" nodeset="0x00000001" gp_index="3"/>
      <object type="NUMANode" os_index="2" subtype="GPUMemory" cpuset="0x0000000f" nodeset="0x00000004" gp_index="4"/>
      <object type="L3Cache" cpuset="0x0000000f" gp_index="5">
        <object type="Core" os_index="0" cpuset="0x00000003" gp_index="6">
          <object type="PU" os_index="0" cpuset="0x00000001" gp_index="7"/>
          <object type="PU" os_index="1" cpuset="0x00000002" gp_index="8"/>
        </object>
        <object type="Core" os_index="4" cpuset="0x0000000c" gp_index="9">
          <object type="PU" os_index="2" cpuset="0x00000004" gp_index="10"/>
          <object type="PU" os_index="3" cpuset="0x00000008" gp_index="11"/>
        </object>
      </object>
      <object type="Bridge" gp_index="20" bridge_type="0-1" depth="0" bridge_pci="0000:[10-20]">
        <object type="Bridge" gp_index="21" bridge_type="1-1" depth="1" bridge_pci="0000:[11-1f]" pci_busid="0000:10:01.0" pci_type="0604 [8086:352a] [0000:0000] 04" pci_link_speed="63.015385">
          <object type="Bridge" gp_index="22" bridge_type="1-1" depth="2" bridge_pci="0000:[12-1f]" pci_busid="0000:11:00.0" pci_type="0604 [1000:c030] [1000:0001] b0" pci_link_speed="63.015385">
            <object type="Bridge" gp_index="23" bridge_type="1-1" depth="3" bridge_pci="0000:[13-13]" pci_busid="0000:12:00.0" pci_type="0604 [1000:c030] [1000:0001] b0" pci_link_speed="63.015385">
              <object type="PCIDev" gp_index="24" pci_busid="0000:13:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="63.015385">
                <object type="OSDev" gp_index="25" name="cuda0" subtype="CUDA" osdev_type="5">
                  <info name="GPUVendor" value="NVIDIA Corporation"/>
                  <info name="GPUModel" value="Accelerator by CUDA"/>
                </object>
                <object type="OSDev" gp_index="26" name="nvml0" subtype="NVML" osdev_type="1">
                  <info name="GPUModel" value="Accelerator"/>
                  <info name="NVIDIAUUID" value="GPU-11111111-2222-3333-4444-555555555555"/>
                </object>
              </object>
            </object>
            <object type="Bridge" gp_index="27" bridge_type="1-1" depth="3" bridge_pci="0000:[14-14]" pci_busid="0000:12:01.0" pci_type="0604 [1000:c030] [1000:0001] b0" pci_link_speed="31.507692">
              <object type="PCIDev" gp_index="28" pci_busid="0000:14:00.0" pci_type="0207 [15b3:1021] [15b3:0023] 00" pci_link_speed="31.507692">
                <object type="OSDev" gp_index="29" name="ibp20s0" osdev_type="2">
                  <info name="Address" value="00:00:10:29:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:aa:00:01"/>
                  <info name="Port" value="1"/>
                </object>
                <object type="OSDev" gp_index="30" name="mlx5_0" osdev_type="3">
                  <info name="NodeGUID" value="0c42:a103:00aa:0001"/>
                  <info name="SysImageGUID" value="0c42:a103:00aa:0001"/>
                  <info name="Port1State" value="4"/>
                  <info name="Port1LID" value="0x2a"/>
                  <info name="Port1GID0" value="fec0:0000:0000:0007:0c42:a103:00aa:0001"/>
                </object>
              </object>
            </object>
          </object>
        </object>
        <object type="Bridge" gp_index="31" bridge_type="1-1" depth="1" bridge_pci="0000:[20-20]" pci_busid="0000:10:05.0" pci_type="0604 [8086:352b] [0000:0000] 04" pci_link_speed="0.000000">
          <object type="PCIDev" gp_index="32" pci_busid="0000:20:00.0" pci_type="0200 [15b3:1017] [15b3:0001] 00" pci_link_speed="0.000000">
            <object type="OSDev" gp_index="33" name="ens1f0" osdev_type="2">
              <info name="Address" value="0c:42:a1:00:00:02"/>
            </object>
            <object type="OSDev" gp_index="34" name="mlx5_1" osdev_type="3">
              <info name="SysImageGUID" value="0000:0000:0000:0000"/>
              <info name="Port1State" value="1"/>
            </object>
          </object>
          <object type="PCIDev" gp_index="35" pci_busid="0000:20:00.1" pci_type="0200 [8086:1563] [8086:0001] 01" pci_link_speed="7.876923">
            <object type="OSDev" gp_index="36" name="eno1" osdev_type="2"/>
          </object>
        </object>
        <object type="PCIDev" gp_index="37" pci_busid="0000:10:02.0" pci_type="0300 [8086:56c0] [8086:0001] 00" pci_link_speed="0.000000"/>
        <object type="PCIDev" gp_index="38" pci_busid="0000:10:03.0" pci_type="0300 [1a03:2000] [1a03:2000] 41" pci_link_speed="0.000000">
          <object type="OSDev" gp_index="39" name="card0" osdev_type="1"/>
        </object>
        <object type="PCIDev" gp_index="40" pci_busid="0000:10:04.0" pci_type="0300 [1002:515e] [1002:0001] 02" pci_link_speed="0.000000"/>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x000000f0" gp_index="50">
      <object type="NUMANode" os_index="1" cpuset="0x000000f0" nodeset="0x00000002" gp_index="51"/>
      <object type="Core" os_index="0" cpuset="0x00000030" gp_index="52">
        <object type="PU" os_index="4" cpuset="0x00000010" gp_index="53"/>
        <object type="PU" os_index="5" cpuset="0x00000020" gp_index="54"/>
        <object type="Bridge" gp_index="60" bridge_type="0-1" depth="0" bridge_pci="0001:[00-01]">
          <object type="Bridge" gp_index="61" bridge_type="1-1" depth="1" bridge_pci="0001:[01-01]" pci_busid="0001:00:01.0" pci_type="0604 [1022:14a5] [1022:0001] 01" pci_link_speed="31.507692">
            <object type="PCIDev" gp_index="62" pci_busid="0001:01:00.0" pci_type="1200 [1002:74a1] [1002:74a1] 00" pci_link_speed="31.507692">
              <object type="OSDev" gp_index="63" name="renderD128" osdev_type="1"/>
              <object type="OSDev" gp_index="64" name="rsmi0" subtype="RSMI" osdev_type="1">
                <info name="GPUModel" value="Instinct"/>
                <info name="AMDUUID" value="abcdef0123456"/>
              </object>
              <object type="OSDev" gp_index="65" name="rsmi1" subtype="RSMI" osdev_type="1">
                <info name="GPUModel" value="Instinct"/>
                <info name="AMDUUID" value="abcdef0123456"/>
              </object>
            </object>
          </object>
        </object>
        <object type="Bridge" gp_index="66" bridge_type="0-1" depth="0" bridge_pci="0001:[80-80]">
          <object type="PCIDev" gp_index="67" pci_busid="0001:80:00.0" pci_type="0200 [17db:0501] [17db:0000] 02" pci_link_speed="31.507692">
            <object type="OSDev" gp_index="68" name="hsn0" osdev_type="2">
              <info name="Address" value="02:00:00:00:00:01"/>
            </object>
          </object>
        </object>
      </object>
      <object type="Core" os_index="0" cpuset="0x000000c0" gp_index="55">
        <object type="PU" os_index="6" cpuset="0x00000040" gp_index="56"/>
        <object type="PU" os_index="7" cpuset="0x00000080" gp_index="57"/>
      </object>
    </object>
    <object type="Bridge" gp_index="70" bridge_type="0-1" depth="0" bridge_pci="0002:[00-00]">
      <object type="PCIDev" gp_index="71" pci_busid="0002:00:06.0" pci_type="0200 [1d0f:efa1] [1d0f:efa1] 00" pci_link_speed="0.000000">
        <object type="OSDev" gp_index="72" name="rdmap0s6" osdev_type="3"/>
      </object>
    </object>
    <object type="OSDev" gp_index="80" name="rxe0" osdev_type="3">
      <info name="Port1State" value="4"/>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="3" kind="5" name="NUMALatency" indexing="os">
    <indexes length="6">1 0 2 </indexes>
    <u64values length="15">10 21 40 22 10 </u64values>
    <u64values length="12">30 41 31 10 </u64values>
  </distances2>
  <distances2 type="OSDev" nbobjs="2" kind="9" name="XGMIBandwidth" indexing="gp">
    <indexes length="6">64 65 </indexes>
    <u64values length="16">1000000 100000 </u64values>
  </distances2>
</topology>
"#;

/// Two NUMA nodes with CPUs and one without, sockets below them, a card with one port of each kind.
pub const VERSION_1: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc.dtd">
<topology>
  <object type="Machine" os_index="0" cpuset="0x0000000f,,0x0000000f" online_cpuset="0x0000000f,,0x0000000f">
    <info name="HostName" value="old1"/>
    <distances nbobjs="3" relative_depth="1" latency_base="10.000000">
      <latency value="1.000000"/>
      <latency value="2.100000"/>
      <latency value="4.000000"/>
      <latency value="2.200000"/>
      <latency value="1.000000"/>
      <latency value="4.100000"/>
      <latency value="4.000000"/>
      <latency value="4.100000"/>
      <latency value="1.000000"/>
    </distances>
    <object type="NUMANode" os_index="0" cpuset="0x0000000f" nodeset="0x00000001">
      <object type="Socket" os_index="0" cpuset="0x0000000f">
        <object type="Core" os_index="0" cpuset="0x00000003">
          <object type="PU" os_index="0" cpuset="0x00000001"/>
          <object type="PU" os_index="1" cpuset="0x00000002"/>
        </object>
        <object type="Core" os_index="1" cpuset="0x0000000c">
          <object type="PU" os_index="2" cpuset="0x00000004"/>
          <object type="PU" os_index="3" cpuset="0x00000008" online_cpuset="0x0"/>
        </object>
      </object>
      <object type="Bridge" os_index="0" bridge_type="0-1" depth="0" bridge_pci="0000:[00-05]">
        <object type="Bridge" os_index="32" name="Root Port" bridge_type="1-1" depth="1" bridge_pci="0000:[04-04]" pci_busid="0000:00:02.0" pci_type="0604 [8086:3c04] [0000:0000] 07" pci_link_speed="4.000000">
          <object type="PCIDev" os_index="16384" name="VPI card" pci_busid="0000:04:00.0" pci_type="0280 [15b3:1003] [15b3:0055] 00" pci_link_speed="4.000000">
            <object type="OSDev" name="eth2" osdev_type="2">
              <info name="Address" value="00:02:c9:00:00:02"/>
              <info name="Port" value="2"/>
            </object>
            <object type="OSDev" name="ib0" osdev_type="2">
              <info name="Address" value="80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01"/>
              <info name="Port" value="1"/>
            </object>
            <object type="OSDev" name="mlx4_0" osdev_type="3">
              <info name="SysImageGUID" value="0002:c903:0000:0003"/>
              <info name="Port1State" value="2"/>
              <info name="Port2State" value="4"/>
            </object>
          </object>
        </object>
        <object type="Bridge" os_index="48" bridge_type="1-1" depth="1" bridge_pci="0000:[05-05]" pci_busid="0000:00:03.0" pci_type="0604 [8086:3c08] [0000:0000] 07" pci_link_speed="8.000000">
          <object type="PCIDev" os_index="20480" pci_busid="0000:05:00.0" pci_type="0302 [10de:1023] [10de:097e] a1" pci_link_speed="8.000000">
            <object type="OSDev" name="nvml0" osdev_type="1"/>
          </object>
        </object>
      </object>
    </object>
    <object type="NUMANode" os_index="1" cpuset="0x0000000f,,0x0" nodeset="0x00000002">
      <object type="Socket" os_index="1" cpuset="0x0000000f,,0x0">
        <object type="Core" os_index="0" cpuset="0x0000000f,,0x0">
          <object type="PU" os_index="64" cpuset="0x00000001,,0x0"/>
          <object type="PU" os_index="65" cpuset="0x00000002,,0x0"/>
        </object>
      </object>
    </object>
    <object type="NUMANode" os_index="4" cpuset="0x0" nodeset="0x00000010"/>
  </object>
</topology>
"#;

/// Types as bits, the machine's infos beside it, and the class's third byte.
pub const VERSION_3: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc3.dtd">
<topology version="3.0">
  <object type="Machine" os_index="0" cpuset="0x00000003" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x00000003" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x00000003" nodeset="0x00000001" gp_index="3"/>
      <object type="PU" os_index="0" cpuset="0x00000001" gp_index="4"/>
      <object type="PU" os_index="1" cpuset="0x00000002" gp_index="5"/>
    </object>
    <object type="Bridge" gp_index="6" bridge_type="0-1" depth="0" bridge_pci="0000:[00-02]">
      <object type="Bridge" gp_index="7" bridge_type="1-1" depth="1" bridge_pci="0000:[01-01]" pci_busid="0000:00:01.0" pci_type="0604 [8086:340c] [0000:0000] 13 00" pci_link_speed="2.000000">
        <object type="PCIDev" gp_index="8" pci_busid="0000:01:00.0" pci_type="0c06 [15b3:6746] [003c:0049] b0 00" pci_link_speed="2.000000">
          <object type="OSDev" gp_index="9" name="ib0" osdev_type="16">
            <info name="Address" value="80:00:00:48:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01"/>
          </object>
          <object type="OSDev" gp_index="10" name="mlx4_0" osdev_type="48">
            <info name="Port1State" value="4"/>
          </object>
          <object type="OSDev" gp_index="11" name="dax0.0" osdev_type="3"/>
        </object>
      </object>
      <object type="PCIDev" gp_index="12" pci_busid="0000:02:00.0" pci_type="0b40 [10de:0001] [10de:0001] a1 02" pci_link_speed="0.100000">
        <object type="OSDev" gp_index="13" name="cuda0" subtype="CUDA" osdev_type="GPU,CoProc"/>
      </object>
    </object>
  </object>
  <info name="HostName" value="new1"/>
</topology>
"#;
