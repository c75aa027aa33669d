// Package rundir keeps a run on disk: the one place that writes, reads and
// versions the files under runs/.
package rundir

import (
	"fmt"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// SchemaVersion is the version of summary.json. A reader accepts the same
// major version.
const SchemaVersion = "2.0.0"

// Verdicts of a run, of a design and of a repeat.
const (
	// Pass: correctness was decided and is as it should be, and no objective was missed
	// on clean times.
	Pass = "PASS"
	// Fail: an invariant was violated, a control was not caught, or an objective was
	// missed on clean times.
	Fail = "FAIL"
	// Inconclusive: there is no answer about correctness, or an objective has no samples.
	Inconclusive = "INCONCLUSIVE"
	// Invalid: stampede itself failed: the accounting differs, the history is broken, or
	// the generator did not offer the load.
	Invalid = "INVALID"
	// NotJudged is a verdict about objectives alone: none was missed on clean times, and
	// some could not be judged because of noise.
	NotJudged = "NOT JUDGED"
)

// Answers about the correctness of one design.
const (
	// Holds: every invariant holds.
	Holds = "HOLDS"
	// Violated: an invariant is violated.
	Violated = "VIOLATED"
	// Caught: a control broke what it was expected to break.
	Caught = "CAUGHT"
	// NotCaught: a control was provoked and did not break what it should have.
	NotCaught = "NOT CAUGHT"
	// NotProvoked: the design is known to be wrong under something that the scenario
	// does not provoke, and broke nothing else.
	NotProvoked = "NOT PROVOKED"
	// NotExercised: the run did not try the design hard enough to say that it holds.
	NotExercised = "NOT EXERCISED"
	// Undecided: there is no answer for another reason, such as a fault without proof.
	Undecided = "UNDECIDED"
)

// States of the times of a repeat, of a design and of a run.
const (
	// Clean: nothing interfered with the times.
	Clean = "clean"
	// Noisy: the machine interfered; interference only delays.
	Noisy = "noisy"
	// NoTimes: the generator was too late, so that its times mean nothing.
	NoTimes = "none"
)

// Summary is summary.json: everything a report needs but the timelines.
type Summary struct {
	SchemaVersion string      `json:"schema_version"`
	Tool          Tool        `json:"tool"`
	Run           RunInfo     `json:"run"`
	Environment   Environment `json:"environment"`
	Verdict       Verdict     `json:"verdict"`
	Variants      []Variant   `json:"variants"`
	// Statements maps the invariants' names to what must be true, in one
	// sentence each.
	Statements map[string]string `json:"statements,omitempty"`
	// Comparisons has every displayed comparison with the baseline.
	Comparisons []Comparison `json:"comparisons,omitempty"`
	// NoiseFloor is how far the baseline differed from itself, absent where it did not run
	// a second time, or without times.
	NoiseFloor *NoiseFloor `json:"noise_floor,omitempty"`
	// Warnings say what the run left undone, such as repeats that were not run again.
	Warnings []string `json:"warnings,omitempty"`
}

// NoiseFloor is the A/A control: the baseline ran first and last, and differed from
// itself by these factors, each 1 or more, in the response time of its main operation.
type NoiseFloor struct {
	Variant string  `json:"variant"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
}

// QuietShare is how far interference may move the p99 of times that are called clean, as a
// share of it. Smaller differences mean nothing even where two runs happen to agree.
const QuietShare = 0.05

// Of is the factor up to which differences in a metric mean nothing: the measured one of p50
// or p99, for others the larger of the two, but at least 1 + QuietShare, which is all that is
// known where the baseline did not run twice.
func (n *NoiseFloor) Of(metric string) float64 {
	measured := 1.0
	switch {
	case n == nil:
	case metric == "p50":
		measured = n.P50
	case metric == "p99":
		measured = n.P99
	default:
		measured = max(n.P50, n.P99)
	}
	return max(measured, 1+QuietShare)
}

// Tool is the program that made the run.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Dirty   bool   `json:"dirty"`
	Go      string `json:"go"`
}

// RunInfo identifies a run.
type RunInfo struct {
	ID       string `json:"id"`
	Scenario string `json:"scenario"`
	Question string `json:"question"`
	System   string `json:"system"`
	Profile  string `json:"profile"`
	Seed     uint64 `json:"seed"`
	Repeats  int    `json:"repeats"`
	Baseline string `json:"baseline"`
	// ArrivalDigest is the hex SHA-256 of the due times.
	ArrivalDigest  string    `json:"arrival_digest"`
	ScenarioDigest string    `json:"scenario_digest"`
	Started        time.Time `json:"started"`
	Finished       time.Time `json:"finished"`
	// Interrupted is true when the run was stopped before its end.
	Interrupted bool     `json:"interrupted"`
	Argv        []string `json:"argv"`
	// Reproduce is a command line that runs the same again.
	Reproduce string `json:"reproduce"`
	// Target is the URL of a foreign server, if one was judged.
	Target string `json:"target,omitempty"`
	// Fitted says how the load was fitted to the machine, absent if it was not.
	Fitted *Fitted `json:"fitted,omitempty"`
	// ProvokedBy maps designs that are known to be wrong to the scenarios that provoke
	// their errors. Runs from before it was recorded have none.
	ProvokedBy map[string][]string `json:"provoked_by,omitempty"`
}

// Fitted is how a load was fitted to the machine: the operations keep their number and are
// spread over a time, between LeastNS and MostNS, at which the highest rate is at most half
// of what the generator sends cleanly here, CleanPerS. A load whose length is given has its
// highest rate in PeakPerS and no CleanPerS: only twice that rate was tried.
type Fitted struct {
	CleanPerS float64 `json:"clean_per_s"`
	OverNS    int64   `json:"over_ns"`
	LeastNS   int64   `json:"least_ns"`
	MostNS    int64   `json:"most_ns"`
	PeakPerS  float64 `json:"peak_per_s,omitempty"`
	// Capped says that the highest rate is more than half of what is sent cleanly.
	Capped bool `json:"capped"`
}

// Uncarried says what follows from a highest rate that the machine does not carry.
func Uncarried(peakPerS float64) string {
	return fmt.Sprintf("this machine does not send %.0f operations a second cleanly, twice what "+
		"the load needs: %s", 2*peakPerS, OfCapped)
}

// OfCapped is what follows from Capped.
const OfCapped = "promises of time are not judged"

// Environment is what a run stood on.
type Environment struct {
	// Backend is containers, processes, external, target or simulation.
	Backend string `json:"backend"`
	// BackendReason says why it was chosen.
	BackendReason string               `json:"backend_reason"`
	Components    map[string]Component `json:"components"`
	OS            string               `json:"os"`
	Kernel        string               `json:"kernel"`
	CPU           string               `json:"cpu"`
	Cores         int                  `json:"cores"`
	MemoryBytes   int64                `json:"memory_bytes"`
	// Governor is the policy of the processor's frequency; CPULimitCores and
	// MemoryLimitBytes are what the control group allows. Absent where there is none.
	Governor         string  `json:"governor,omitempty"`
	CPULimitCores    float64 `json:"cpu_limit_cores,omitempty"`
	MemoryLimitBytes int64   `json:"memory_limit_bytes,omitempty"`
	// Fingerprint is equal for runs whose numbers may be compared.
	Fingerprint string `json:"fingerprint"`
	// Deploy is how the variants ran: in-process, processes or containers.
	Deploy string `json:"deploy,omitempty"`
	// Proxied is true when a TCP proxy stood before the stores.
	Proxied bool `json:"proxied"`
	// Generators is who offered the load in place of the run's process: how many, and on what.
	Generators string `json:"generators,omitempty"`
}

// Simulation is the Backend of a run in virtual time, in which nothing was measured.
const Simulation = "simulation"

// Simulated says that the run was a simulation.
func (e Environment) Simulated() bool { return e.Backend == Simulation }

// Component is one store with what decides its numbers.
type Component struct {
	// Kind is what it really is: postgres, redis, valkey, kfake.
	Kind    string `json:"kind"`
	Version string `json:"version"`
	// Source is an image with its digest, or a binary's path.
	Source string `json:"source"`
	// Settings are the settings that matter: fsync, synchronous_commit,
	// appendonly and those a scenario changed.
	Settings map[string]string `json:"settings,omitempty"`
	// FlushNS is the median time of one fdatasync on its data folder.
	FlushNS int64 `json:"flush_ns,omitempty"`
}

// Verdict is the run's verdict and its three parts, which are never mixed: whether the
// designs are correct, whether their times can be used, and whether objectives were met.
type Verdict struct {
	// Overall is PASS, FAIL, INCONCLUSIVE or INVALID.
	Overall string `json:"overall" enum:"PASS,FAIL,INCONCLUSIVE,INVALID"`
	// Correctness is PASS, FAIL, INCONCLUSIVE or INVALID.
	Correctness string `json:"correctness" enum:"PASS,FAIL,INCONCLUSIVE,INVALID"`
	// Objectives is PASS, FAIL, NOT JUDGED or INCONCLUSIVE.
	Objectives string `json:"objectives" enum:"PASS,FAIL,NOT JUDGED,INCONCLUSIVE"`
	// Timing is clean, noisy or none: clean if the times of all designs are, none if
	// those of no design can be used.
	Timing  string   `json:"timing" enum:"clean,noisy,none"`
	Reasons []string `json:"reasons"`
}

// Variant is what one variant did over all repeats.
type Variant struct {
	Name       string `json:"name"`
	Idea       string `json:"idea"`
	Guarantees string `json:"guarantees"`
	GivesUp    string `json:"gives_up"`
	// Needs are the services that it uses, Servers how many servers of its API the load
	// was spread over, and Roles what works beside them. They are absent where a
	// foreign server was judged.
	Needs   []string `json:"needs,omitempty"`
	Servers int      `json:"servers,omitempty"`
	Roles   []Role   `json:"roles,omitempty"`
	// Verdict is PASS, FAIL, INCONCLUSIVE or INVALID; a control that was caught passes.
	Verdict string `json:"verdict" enum:"PASS,FAIL,INCONCLUSIVE,INVALID"`
	// Correctness is HOLDS, VIOLATED, CAUGHT, NOT CAUGHT, NOT PROVOKED, NOT EXERCISED or
	// UNDECIDED; it is decided by all repeats, whatever their times are worth.
	Correctness string `json:"correctness"`
	// Objectives is PASS, FAIL, NOT JUDGED or INCONCLUSIVE; PASS for a control.
	Objectives string `json:"objectives" enum:"PASS,FAIL,NOT JUDGED,INCONCLUSIVE"`
	// Timing is the state of the times below: clean, noisy or none. They are of the
	// repeats in the best state that there is.
	Timing string `json:"timing" enum:"clean,noisy,none"`
	// Races is the sum over the repeats but the control, absent if the system names no operations that
	// race, or nothing was recorded.
	Races   *Races   `json:"races,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// ExpectedBroken are the invariants that this scenario must catch it
	// breaking.
	ExpectedBroken []string `json:"expected_broken"`
	// KnownWrong maps the invariants that the variant is known to break to the
	// triggers under which it does, separated by commas, whether this scenario provokes
	// them or not. Runs from before all were recorded name one.
	KnownWrong map[string]string `json:"known_wrong,omitempty"`
	// NotApplicable maps invariants that say nothing about it to the reason.
	NotApplicable map[string]string `json:"not_applicable,omitempty"`
	// Invariants is the worst verdict of each invariant over the repeats.
	Invariants []check.Verdict    `json:"invariants"`
	SLOs       []check.SLOVerdict `json:"slos"`
	Repeats    []Repeat           `json:"repeats"`

	Load           Load        `json:"load"`
	Latency        Latencies   `json:"latency_ns"`
	ThroughputPerS float64     `json:"throughput_per_s"`
	Operations     []Operation `json:"operations"`
}

// Role is background work of a variant.
type Role struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	// Replicas is how many of it worked side by side.
	Replicas int `json:"replicas"`
}

// Repeat is one execution of one variant.
type Repeat struct {
	Index int `json:"index"`
	// Order is its place in the interleaved order of the whole run, from 0.
	Order int `json:"order"`
	// Control marks the second run of the baseline, which only shows how far it differs
	// from itself.
	Control bool `json:"control,omitempty"`
	// Again is the index of the repeat that this one repeats, because the machine
	// interfered with that one's times; absent otherwise. Both are judged.
	Again *int `json:"again,omitempty"`
	// Used says that the design's times are of this repeat, among others.
	Used    bool   `json:"used"`
	Verdict string `json:"verdict" enum:"PASS,FAIL,INCONCLUSIVE,INVALID"`
	// Timing is clean, noisy or none; QuietNS are the percentiles of the response times
	// without the operations that were due while other programs or the hypervisor took
	// the CPU, present where any were.
	Timing string      `json:"timing" enum:"clean,noisy,none"`
	Quiet  *QuietTimes `json:"quiet,omitempty"`
	// Races are the operations that raced, absent if the system names none.
	Races          *Races             `json:"races,omitempty"`
	Validity       []Validity         `json:"validity"`
	Invariants     []check.Verdict    `json:"invariants"`
	SLOs           []check.SLOVerdict `json:"slos"`
	Faults         []history.Window   `json:"faults,omitempty"`
	Load           Load               `json:"load"`
	Latency        Latencies          `json:"latency_ns"`
	ThroughputPerS float64            `json:"throughput_per_s"`
	Operations     []Operation        `json:"operations"`
	Generator      Generator          `json:"generator"`
	// DrainNS is how long quiescence took after the last operation.
	DrainNS int64 `json:"drain_ns"`
	// History and Audit are paths in the run directory.
	History  string `json:"history"`
	Audit    string `json:"audit"`
	Timeline string `json:"timeline"`
	// Telemetry is one too, absent if nobody was asked.
	Telemetry string `json:"telemetry,omitempty"`
	// Windows is one too, absent in runs from before there was one.
	Windows string `json:"windows,omitempty"`
	// Processor is the processor time that it took, absent if nobody measured it.
	Processor *Processor `json:"processor,omitempty"`
	// Bottleneck is, in a simulation, what was waited for longest, in words.
	Bottleneck string `json:"bottleneck,omitempty"`
	// Error is why the repeat could not be finished.
	Error string `json:"error,omitempty"`
}

// Races counts the successful operations on one key that overlapped another one on it.
type Races struct {
	// Kinds are the operations that race.
	Kinds []string `json:"kinds"`
	// Successful operations of these kinds there were, apart from those that took nothing, of
	// which Raced overlapped another operation of these kinds on the same key, successful or
	// not; Peak is the highest number of operations in execution on one key at once.
	Successful int64 `json:"successful"`
	Raced      int64 `json:"raced"`
	Peak       int64 `json:"peak"`
	// Least is how many must have raced for the invariants to be exercised.
	Least int64 `json:"least"`
}

// QuietTimes are the response times without the operations that were due in seconds in
// which the hypervisor or other programs took the CPU, and until their backlog was gone.
type QuietTimes struct {
	// TakenNS is how much of the load's time that was, of SpanNS.
	TakenNS  int64       `json:"taken_ns"`
	SpanNS   int64       `json:"span_ns"`
	Response Percentiles `json:"response"`
}

// Classes of assumptions.
const (
	// Evidence decides whether there is an answer about correctness.
	Evidence = "evidence"
	// Times decide whether the times can be used, and nothing else.
	Times = "timing"
)

// Assumptions that say how hard a design was tried.
const (
	Exercised  = "exercised"
	Operations = "operations"
	Raced      = "races"
	// Clocks: the clocks of several generators were close enough to each other.
	Clocks = "clocks"
)

// FaultAssumption begins the name of the assumption that a fault happened, which its name
// follows. It holds also where a design has nothing that the fault strikes.
const FaultAssumption = "fault "

// Exercise says that an assumption is one of those.
func Exercise(name string) bool {
	return name == Exercised || name == Operations || name == Raced || name == Clocks
}

// Validity is one assumption about the measurement.
type Validity struct {
	Name string `json:"name"`
	// Class is evidence or timing.
	Class string `json:"class"`
	OK    bool   `json:"ok"`
	// Detail has the number and its limit.
	Detail string `json:"detail"`
}

// Processor is the processor time of one repeat, from the start of the load until
// nothing was left to do.
type Processor struct {
	// Operations is how many operations were started in that time, the warm-up's
	// included.
	Operations int64           `json:"operations"`
	Parts      []ProcessorPart `json:"parts"`
	// Machine is absent if it did not say, or if not all of the system is known.
	Machine *Machine `json:"machine,omitempty"`
}

// Machine is what everybody else used of a machine while a repeat ran there: neither the
// generator nor the system under test, nor a container engine.
type Machine struct {
	// SpanNS is for how long, Cores how many there are, OthersNS how much others used.
	SpanNS   int64 `json:"span_ns"`
	Cores    int   `json:"cores"`
	OthersNS int64 `json:"others_ns"`
	// UnknownNS was used by others or by the run: part of the run did not say for a while
	// what it used.
	UnknownNS int64 `json:"unknown_ns,omitempty"`
}

// OthersShare is the share of all the machine's cores that others used at least.
func (m *Machine) OthersShare() float64 {
	if m == nil {
		return 0
	}
	return m.share(m.OthersNS)
}

// OthersMost is the share that they used at most.
func (m *Machine) OthersMost() float64 {
	if m == nil {
		return 0
	}
	return m.share(m.OthersNS + m.UnknownNS)
}

func (m *Machine) share(ns int64) float64 {
	if m.SpanNS <= 0 || m.Cores <= 0 {
		return 0
	}
	return float64(ns) / float64(m.SpanNS) / float64(m.Cores)
}

// ProcessorPart is the processor time of one process, or of several that are one
// component.
type ProcessorPart struct {
	// Name is that of a store or a role, or GeneratorPart.
	Name string `json:"name"`
	NS   int64  `json:"ns"`
}

// GeneratorPart is the load generator, and whatever of the system under test runs in
// its process.
const GeneratorPart = "generator"

// Load counts operations. Scheduled = Started + Dropped, and Started = OK +
// Refused + Unknown.
type Load struct {
	Scheduled int64 `json:"scheduled"`
	Started   int64 `json:"started"`
	Dropped   int64 `json:"dropped"`
	OK        int64 `json:"ok"`
	Refused   int64 `json:"refused"`
	Unknown   int64 `json:"unknown"`
}

// Add adds other operations.
func (l *Load) Add(o Load) {
	l.Scheduled += o.Scheduled
	l.Started, l.Dropped = l.Started+o.Started, l.Dropped+o.Dropped
	l.OK, l.Refused, l.Unknown = l.OK+o.OK, l.Refused+o.Refused, l.Unknown+o.Unknown
}

// Latencies are the three histograms' percentiles.
type Latencies struct {
	// Response is intended to end, Service start to end, Lag intended to
	// start.
	Response Percentiles `json:"response"`
	Service  Percentiles `json:"service"`
	Lag      Percentiles `json:"lag"`
}

// Percentiles are integer nanoseconds. A percentile that falls among dropped
// or unfinished operations is Infinite.
type Percentiles struct {
	Count int64 `json:"count" min:"0"`
	P50   int64 `json:"p50" min:"0"`
	P90   int64 `json:"p90" min:"0"`
	P99   int64 `json:"p99" min:"0"`
	P999  int64 `json:"p999" min:"0"`
	Max   int64 `json:"max" min:"0"`
}

// Infinite is the latency of an operation that was dropped or never ended.
const Infinite = int64(history.Never)

// Operation is one operation kind's numbers.
type Operation struct {
	Kind           string    `json:"kind"`
	Load           Load      `json:"load"`
	Latency        Latencies `json:"latency_ns"`
	ThroughputPerS float64   `json:"throughput_per_s"`
	// HDR is the response histogram, HdrHistogram V2 compressed, base64;
	// ServiceHDR and LagHDR likewise.
	HDR        string `json:"hdr_v2_base64"`
	ServiceHDR string `json:"service_hdr_v2_base64"`
	LagHDR     string `json:"lag_hdr_v2_base64"`
	// Successful are the response times of the successful operations alone, SuccessfulHDR
	// their histogram. Both are absent in runs from before they were kept, and where every
	// operation was successful; see SuccessfulResponse.
	Successful    *Percentiles `json:"successful_ns,omitempty"`
	SuccessfulHDR string       `json:"successful_hdr_v2_base64,omitempty"`
	// Errors counts refused and unknown operations by class.
	Errors []ErrorClass `json:"errors,omitempty"`
	// Phases are response percentiles cut by intended time: warm-up, steady
	// and before, during and after each fault.
	Phases []Phase `json:"phases,omitempty"`
}

// Violated are the invariants that the variant broke, whether or not it was known to.
func (v Variant) Violated() []string {
	names := []string{}
	for _, i := range v.Invariants {
		if i.Status == check.Broken {
			names = append(names, i.Invariant)
		}
	}
	return names
}

// SuccessfulResponse are the response times of the successful operations; false if they were
// not kept.
func (o Operation) SuccessfulResponse() (p Percentiles, known bool) {
	switch {
	case o.Successful != nil:
		return *o.Successful, true
	case o.Load.OK == o.Load.Scheduled:
		return o.Latency.Response, true
	}
	return p, false
}

// ErrorClass counts errors that have the same code or, without one, read alike.
type ErrorClass struct {
	Outcome string `json:"outcome"`
	// Class is the documented code, or the text with what differs replaced by "#".
	Class string `json:"class"`
	Count int64  `json:"count"`
	// Sample is the error of the first of them, FirstNS when that was due; it is 0 in
	// runs from before it was kept, and in what several repeats add up to.
	Sample  string `json:"sample"`
	FirstNS int64  `json:"first_ns,omitempty"`
}

// Phase is a part of the run, by intended time.
type Phase struct {
	Name     string      `json:"name"`
	StartNS  int64       `json:"start_ns"`
	EndNS    int64       `json:"end_ns"`
	Load     Load        `json:"load"`
	Response Percentiles `json:"response"`
}

// Generator is what the generator itself used.
type Generator struct {
	// CPUCores is the mean number of cores used by this process, which for
	// in-process variants includes the variant's own client code.
	CPUCores     float64 `json:"cpu_cores"`
	GCPauseP99NS int64   `json:"gc_pause_p99_ns"`
	SchedP99NS   int64   `json:"sched_latency_p99_ns"`
	// LagP50NS and so on are how late the pacer dispatched operations, which
	// is part of what is reported as their response time.
	LagP50NS  int64 `json:"lag_p50_ns"`
	LagP90NS  int64 `json:"lag_p90_ns"`
	LagP99NS  int64 `json:"lag_p99_ns"`
	OpenFiles int   `json:"open_files"`
	// StealShare is the share of host CPU time stolen by the hypervisor.
	StealShare float64 `json:"steal_share"`
}

// Comparison is one metric of one variant against the baseline.
type Comparison struct {
	Metric    string `json:"metric"`
	Op        string `json:"op"`
	Base      string `json:"base"`
	Candidate string `json:"candidate"`
	// Ratio is candidate / base of the medians over repeats.
	Ratio float64 `json:"ratio"`
	// CI95 is a bootstrap interval of the ratio; absent under 6 repeats.
	CI95 *[2]float64 `json:"ci95,omitempty"`
	// PExact is the exact two-sided Mann-Whitney p; absent under 4 repeats.
	PExact *float64 `json:"p_exact,omitempty"`
	// PHolm is PExact after Holm's correction over the displayed metrics.
	PHolm       *float64 `json:"p_holm,omitempty"`
	N           int      `json:"n"`
	Significant bool     `json:"significant"`
	Large       bool     `json:"large"`
	// Approximate says that the times of a side are noisy: there is no p, and no ratio
	// that is not larger than the noise floor.
	Approximate bool   `json:"approximate,omitempty"`
	Note        string `json:"note,omitempty"`
}

// Timeline is one repeat's numbers over time, kept in its own file.
type Timeline struct {
	// BucketNS is the width of a bucket; buckets start at 0.
	BucketNS int64          `json:"bucket_ns"`
	Kinds    []KindTimeline `json:"kinds"`
	// Watched are the quantities that invariants followed.
	Watched []WatchedLine `json:"watched,omitempty"`
}

// WatchedLine is a quantity that an invariant followed, over time. What sums
// it up is in the invariant's verdict.
type WatchedLine struct {
	Invariant string               `json:"invariant"`
	Quantity  string               `json:"quantity"`
	Unit      string               `json:"unit"`
	Points    []check.WatchedPoint `json:"points"`
}

// WatchedLines takes what was followed from verdicts that were just made.
func WatchedLines(verdicts []check.Verdict) (lines []WatchedLine) {
	for _, v := range verdicts {
		if w := v.Watched; w != nil && len(w.Points) > 0 {
			lines = append(lines, WatchedLine{v.Invariant, w.Quantity, w.Unit, w.Points})
		}
	}
	return lines
}

// KindTimeline is one operation kind over time, by intended time.
type KindTimeline struct {
	Kind    string   `json:"kind"`
	Buckets []Bucket `json:"buckets"`
}

// Bucket is one time bucket: counts, and the percentiles of what was due in it.
type Bucket struct {
	Load     Load        `json:"load"`
	Response Percentiles `json:"response"`
	Service  Percentiles `json:"service"`
	Lag      Percentiles `json:"lag"`
	// Ended counts operations whose End falls in the bucket.
	Ended int64 `json:"ended"`
	// InFlight is the number in execution at the bucket's end.
	InFlight int64 `json:"in_flight"`
}
