package answer

import "stampede/harness/rundir"

// Approximately marks noisy times.
func Approximately(st Standing) string {
	if st.Timing == rundir.Noisy && st.Main != nil {
		return "≈ "
	}
	return ""
}
