package calibrate

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"stampede/harness/rundir"
	"stampede/harness/stats"
)

// Beside puts what a simulation said beside what was measured under the same load, design by
// design. Response times are those of the main kind.
func Beside(simulated, measured rundir.Summary) (designs []rundir.PredictedDesign) {
	for _, m := range measured.Variants {
		i := slices.IndexFunc(simulated.Variants, func(v rundir.Variant) bool {
			return v.Name == m.Name
		})
		if i < 0 || len(m.Operations) == 0 || len(simulated.Variants[i].Operations) == 0 {
			continue
		}
		s := simulated.Variants[i]
		of, is, some := responses(m.Operations[0], s.Operations[0])
		d := rundir.PredictedDesign{Design: m.Name, Measured: m.Violated(), Predicted: s.Violated(),
			Quantities: []rundir.Quantity{
				{Name: "p50", Unit: "ns", Predicted: float64(is.P50), Measured: float64(of.P50)},
				{Name: "p99", Unit: "ns", Predicted: float64(is.P99), Measured: float64(of.P99)},
				{Name: "throughput", Unit: "/s", Predicted: s.ThroughputPerS,
					Measured: m.ThroughputPerS},
			}}
		if some {
			of, is := m.Operations[0].Latency.Response, s.Operations[0].Latency.Response
			d.Quantities = append(d.Quantities,
				rundir.Quantity{Name: "p50 of all", Unit: "ns", Predicted: float64(is.P50),
					Measured: float64(of.P50)},
				rundir.Quantity{Name: "p99 of all", Unit: "ns", Predicted: float64(is.P99),
					Measured: float64(of.P99)})
		}
		d.Quantities = append(d.Quantities, processor(s, m)...)
		designs = append(designs, d)
	}
	return designs
}

// responses are those of the successful operations where both are known, and of all otherwise;
// some says that not all were successful.
func responses(measured, simulated rundir.Operation) (of, is rundir.Percentiles, some bool) {
	of, known := measured.SuccessfulResponse()
	is, too := simulated.SuccessfulResponse()
	if !known || !too || of.Count == 0 || is.Count == 0 {
		return measured.Latency.Response, simulated.Latency.Response, false
	}
	return of, is, measured.Successful != nil
}

// cpu is the CPU time for each operation, by part.
func cpu(v rundir.Variant) map[string]float64 {
	sum, operations := map[string]float64{}, int64(0)
	for _, r := range v.Repeats {
		if p := r.Processor; p != nil {
			operations += p.Operations
			for _, part := range p.Parts {
				sum[part.Name] += float64(part.NS)
			}
		}
	}
	for name := range sum {
		sum[name] /= float64(max(operations, 1))
	}
	return sum
}

// processor puts the CPU time of an operation beside the predicted one: if it is off, so is all
// that follows from it.
func processor(simulated, measured rundir.Variant) (all []rundir.Quantity) {
	is, of := cpu(simulated), cpu(measured)
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if is[name] > 0 && of[name] > 0 {
			all = append(all, rundir.Quantity{Name: "CPU of " + name, Unit: "ns", Predicted: is[name],
				Measured: of[name]})
		}
	}
	return all
}

// Sample is a held-out load with what came of it.
type Sample struct {
	// Load says which, such as "0.6 of the knee".
	Load string
	rundir.PredictedDesign
}

// Goal is how large the median error of a quantity may be, as a share.
type Goal struct {
	Quantity string
	Share    float64
}

// Goals are those of docs/simulation.md.
func Goals() []Goal { return []Goal{{"knee", 0.15}, {"p50", 0.20}, {"p99", 0.35}} }

// Median is the median error of a quantity, as a share: exp(|ln(p/m)|) − 1, so that half and
// double are both 1. n is of how many; of none it is not a number.
func Median(samples []Sample, quantity string) (share float64, n int) {
	var errs []float64
	for _, s := range samples {
		for _, q := range s.Quantities {
			if q.Name == quantity {
				errs = append(errs, math.Expm1(q.Error()))
			}
		}
	}
	return stats.Median(errs), len(errs)
}

// apart is by which factor two designs must differ for their order to count.
const apart = 1.5

// Order counts the pairs of designs under one load whose measured p99 differ by more than half,
// and of them those that were predicted in the right order; wrong names the others.
func Order(samples []Sample) (right, pairs int, wrong []string) {
	p99 := func(s Sample) (q rundir.Quantity) {
		for _, q := range s.Quantities {
			if q.Name == "p99" {
				return q
			}
		}
		return q
	}
	for i, a := range samples {
		for _, b := range samples[i+1:] {
			x, y := p99(a), p99(b)
			if a.Load != b.Load || max(x.Measured, y.Measured) <= apart*min(x.Measured, y.Measured) {
				continue
			}
			pairs++
			if x.Predicted != y.Predicted &&
				(x.Measured < y.Measured) == (x.Predicted < y.Predicted) {
				right++
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%s and %s at %s", a.Design, b.Design, a.Load))
		}
	}
	return right, pairs, wrong
}
