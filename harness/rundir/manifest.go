package rundir

// Manifest is run.json: what a run set out to do, written before it begins.
// With the histories and audits it is enough to judge a run that was killed.
type Manifest struct {
	SchemaVersion string `json:"schema_version"`
	Tool          Tool   `json:"tool"`
	// Run has everything but the end.
	Run RunInfo `json:"run"`
	// Slots are the repeats in the order in which they run.
	Slots []Slot `json:"slots"`
	// Warnings are those of the summary.
	Warnings []string `json:"warnings,omitempty"`
}

// Slot is one repeat of one variant: when it runs and where its files go.
type Slot struct {
	Variant string `json:"variant"`
	// Repeat counts from 0; so does Order, over the whole run.
	Repeat int `json:"repeat"`
	Order  int `json:"order"`
	// Control and Again are those of Repeat.
	Control bool `json:"control,omitempty"`
	Again   *int `json:"again,omitempty"`
	// History, Audit and Timeline are paths in the run directory.
	History  string `json:"history"`
	Audit    string `json:"audit"`
	Timeline string `json:"timeline"`
}

// Interleave returns the slots of a run: every variant once, then every
// variant again, and so on (ABCABC), so that a drift of the machine touches
// all variants alike.
func Interleave(variants []string, repeats int) []Slot {
	slots := make([]Slot, 0, len(variants)*repeats)
	for repeat := range repeats {
		for _, variant := range variants {
			slots = append(slots, slotOf(variant, repeat, len(slots)))
		}
	}
	return slots
}

// WithControl appends a second run of the baseline, which shows how far it differs from
// itself between the first and the last repeat.
func WithControl(slots []Slot, baseline string) []Slot {
	slot := nextSlot(slots, baseline)
	slot.Control = true
	return append(slots, slot)
}

// WithAgain appends another run of a repeat whose times the machine interfered with.
func WithAgain(slots []Slot, of Slot) []Slot {
	slot := nextSlot(slots, of.Variant)
	slot.Control, slot.Again = of.Control, &of.Repeat
	return append(slots, slot)
}

// nextSlot is one more repeat of a variant, after all others.
func nextSlot(slots []Slot, variant string) Slot {
	repeat := 0
	for _, s := range slots {
		if s.Variant == variant {
			repeat = max(repeat, s.Repeat+1)
		}
	}
	return slotOf(variant, repeat, len(slots))
}

func slotOf(variant string, repeat, order int) Slot {
	return Slot{
		Variant: variant, Repeat: repeat, Order: order,
		History:  HistoryName(variant, repeat),
		Audit:    AuditName(variant, repeat),
		Timeline: TimelineName(variant, repeat),
	}
}
