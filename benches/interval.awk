# Ratios of medians with bootstrap intervals.  Reads lines "ROUND SHAPE KIND MICROSECONDS"; prints for each shape the medians
# and, for each kind but `none`, its median over that of `none` with the interval that holds 95 % of 2,000 samples of the
# rounds (percentiles).  Rounds are drawn whole, so that a slow minute counts for all kinds alike.
function sort(a, n,    i, j, v) {
    for (i = 2; i <= n; i++) {
        v = a[i]
        for (j = i - 1; j >= 1 && a[j] > v; j--) a[j + 1] = a[j]
        a[j + 1] = v
    }
}
function median(a, n) { sort(a, n); return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2 }
{ us[$2, $3, $1] = $4; shapes[$2]; if (!($3 in kinds)) { kinds[$3]; order[++count] = $3 } if ($1 > rounds) rounds = $1 }
END {
    srand(1)
    for (shape in shapes) {
        for (k = 1; k <= count; k++) {
            for (r = 1; r <= rounds; r++) a[r] = us[shape, order[k], r]
            middle[order[k]] = median(a, rounds)
        }
        for (s = 1; s <= 2000; s++) {
            for (r = 1; r <= rounds; r++) drawn[r] = 1 + int(rand() * rounds)
            for (k = 1; k <= count; k++) {
                for (r = 1; r <= rounds; r++) a[r] = us[shape, order[k], drawn[r]]
                sampled[order[k]] = median(a, rounds)
            }
            for (k = 1; k <= count; k++) ratio[order[k], s] = sampled[order[k]] / sampled["none"]
        }
        for (k = 1; k <= count; k++) {
            kind = order[k]
            line = sprintf("%-4s %-8s median %8.1f ms", shape, kind, middle[kind] / 1000)
            if (kind != "none") {
                for (s = 1; s <= 2000; s++) a[s] = int(ratio[kind, s] * 1e6)
                # counting is quicker than sorting two thousand
                low = percentile(a, 2000, 50); high = percentile(a, 2000, 1950)
                line = line sprintf("   / none %.3f [%.3f, %.3f]", middle[kind] / middle["none"], low / 1e6, high / 1e6)
            }
            print line
        }
    }
}
# the `which`-th smallest of n whole numbers, by halving the range of their values
function percentile(a, n, which,    low, high, at, i, below) {
    low = a[1]; high = a[1]
    for (i = 2; i <= n; i++) { if (a[i] < low) low = a[i]; if (a[i] > high) high = a[i] }
    while (low < high) {
        at = int((low + high) / 2); below = 0
        for (i = 1; i <= n; i++) if (a[i] <= at) below++
        if (below >= which) high = at; else low = at + 1
    }
    return low
}
