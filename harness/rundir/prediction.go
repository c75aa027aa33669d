package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// PredictionFile is where a simulation keeps what it was held against.
const PredictionFile = "prediction.json"

// Prediction is a simulation beside a run of the same load that was measured.
type Prediction struct {
	// Run is the one that was measured, and Calibrated when the models' costs were.
	Run        string `json:"run"`
	Calibrated string `json:"calibrated"`
	// Scaled says that this simulation is about another load or machine than that run, and the
	// prediction about one that was made for it alone.
	Scaled  bool              `json:"scaled"`
	Designs []PredictedDesign `json:"designs"`
	// Notes say what limits the comparison, such as a machine that was not quiet.
	Notes []string `json:"notes"`
}

// PredictedDesign is what was predicted of a design.
type PredictedDesign struct {
	Design     string     `json:"design"`
	Quantities []Quantity `json:"quantities"`
	// Predicted and Measured are the invariants that were violated.
	Predicted []string `json:"predicted"`
	Measured  []string `json:"measured"`
}

// Quantity is a figure that was predicted and measured.
type Quantity struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit" enum:"ns,/s,cores"`
	Predicted float64 `json:"predicted"`
	Measured  float64 `json:"measured"`
}

// Error is |ln(predicted/measured)|: 0.1 is about ten percent, and too high counts as much as
// too low. It is infinite where one of them is 0.
func (q Quantity) Error() float64 {
	if q.Predicted == q.Measured {
		return 0
	}
	return math.Abs(math.Log(q.Predicted / q.Measured))
}

// Write keeps it in a run directory.
func (p Prediction) Write(dir string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, PredictionFile), append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("keeping the prediction: %w", err)
	}
	return nil
}

// Prediction reads what a simulation was held against; nil if that was nothing.
func (r *Run) Prediction() (*Prediction, error) {
	p := new(Prediction)
	err := r.decodeFile(PredictionFile, p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing
	}
	return p, err
}
