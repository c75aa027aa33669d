package check

// SLOVerdict is the result of judging one objective.
type SLOVerdict struct {
	Name      string `json:"name"`
	Objective string `json:"objective"`
	Status    Status `json:"status"`
	// Limit and Actual are printed with their unit; Margin is how far inside
	// (positive) or outside (negative) the limit, as a share of it.
	Limit  string  `json:"limit"`
	Actual string  `json:"actual"`
	Margin float64 `json:"margin"`
	// Samples is how many operations the number rests on.
	Samples int64  `json:"samples"`
	Reason  string `json:"reason,omitempty"`
}
