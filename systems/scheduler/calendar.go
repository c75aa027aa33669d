package scheduler

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// calendar turns business time into times of the database's clock and back.
type calendar struct {
	begins time.Time // on the clock
	day    time.Time // the same moment in business time
	scale  float64
}

// clock is the moment of a business time, cut down to the microsecond that
// Postgres keeps.
func (c calendar) clock(business time.Time) time.Time {
	since := time.Duration(float64(business.Sub(c.day)) / c.scale)
	return c.begins.Add(since).Truncate(time.Microsecond)
}

// business is the business time of a moment. Of what clock returned it may be
// off by TimeScale microseconds; it is meant to be read, not counted with.
func (c calendar) business(at time.Time) time.Time {
	return c.day.Add(time.Duration(float64(at.Sub(c.begins)) * c.scale)).UTC()
}

// errNever: the expression describes no time in the years that are looked at.
var errNever = errors.New("the cron expression never comes true")

// cronSchedule is a cron expression in a time zone.
//
// Days match as POSIX has it: where day of month and day of week are both given,
// one of them suffices. Given is what is not "*": so says POSIX, which has no steps,
// while Vixie's cron takes "*/2" for a star.
//
// What a change of the clocks does follows Vixie's cron: an expression whose minute or
// hour begins with a star goes on by the time that passes, so it runs in both passes of
// an hour that comes twice and not in one that is left out. Any other names times of the
// day, each of which happens once: in the first pass of an hour that comes twice, and,
// if it is left out, at once after the gap, once for all such times.
//
// The module's own way with time zones is not used: it runs "30 2 * * *" twice
// where 02:30 comes twice, and not at all where midnight or half an hour is left
// out. The expression is looked up in wall-clock time, which is as regular as UTC,
// and each span of a constant offset is mapped to the clock.
type cronSchedule struct {
	wall   cron.Schedule
	zone   *time.Location
	elapse bool
}

// parseCron reads five fields. The zone is a name of the IANA database; empty is
// UTC.
func parseCron(expression, zone string) (cronSchedule, error) {
	fields := strings.Fields(expression)
	if len(fields) != 5 {
		return cronSchedule{}, fmt.Errorf("expected five fields such as \"0 9 * * 1-5\", got %q",
			expression)
	}
	for i, field := range fields {
		if err := checkCronField(i, field); err != nil {
			return cronSchedule{}, fmt.Errorf("cron expression %q: %w", expression, err)
		}
	}
	location, err := time.LoadLocation(zone)
	if err != nil || location == time.Local {
		return cronSchedule{}, fmt.Errorf("expected a time zone such as Europe/Berlin, got %q", zone)
	}
	parser, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
		cron.DowOrDom)
	if err != nil {
		return cronSchedule{}, fmt.Errorf("making a parser: %w", err)
	}
	wall, err := parser.Parse(expression)
	if err != nil {
		return cronSchedule{}, fmt.Errorf("cron expression %q: %w", expression, err)
	}
	star := strings.HasPrefix(fields[0], "*") || strings.HasPrefix(fields[1], "*")
	return cronSchedule{wall, location, star}, nil
}

// cronNames are the names of the values of a field, and what the first of them is.
func cronNames(field int) (names []string, first int) {
	switch field {
	case 3:
		return strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec"), 1
	case 4:
		return strings.Fields("sun mon tue wed thu fri sat"), 0
	}
	return nil, 0
}

var cronElement = regexp.MustCompile(`^(?:\*|(\w+)(?:-(\w+))?)(?:/\d+)?$`) // of a field

// checkCronField refuses what the module reads in a way that no other cron does, and
// without a word: ranges that run backwards, which it takes round, "?", empty elements
// of lists, and whatever comes after a star. It leaves bounds to the module.
func checkCronField(place int, field string) error {
	names, first := cronNames(place)
	value := func(text string) (int, error) {
		if i := slices.Index(names, strings.ToLower(text)); i >= 0 {
			return first + i, nil
		}
		return strconv.Atoi(text)
	}
	for element := range strings.SplitSeq(field, ",") {
		span := cronElement.FindStringSubmatch(element)
		if span == nil {
			return fmt.Errorf("%q: expected *, numbers or names, ranges and steps of them", element)
		}
		low, bad := value(cmp.Or(span[1], "0"))
		high, worse := value(cmp.Or(span[2], span[1], "0"))
		switch err := errors.Join(bad, worse); {
		case err != nil:
			return fmt.Errorf("%q: expected *, numbers or names, ranges and steps of them: %w", element, err)
		case low > high:
			return fmt.Errorf("%q runs backwards: write two ranges, such as 22-23,0-2", element)
		}
	}
	return nil
}

// maxSpans bounds the search: two changes of the clocks a year, for more years
// than the module looks.
const maxSpans = 40

// next is the first time after a business time; errNever if there is none.
func (s cronSchedule) next(after time.Time) (time.Time, error) {
	sp := spanOf(after.In(s.zone))
	for range maxSpans {
		if at := s.in(sp, after); !at.IsZero() {
			return at.UTC(), nil
		}
		if sp.end.IsZero() {
			break
		}
		after = sp.end.Add(-time.Nanosecond) // the next span's first moment counts
		sp = spanOf(sp.end)
	}
	return time.Time{}, errNever
}

// span is a time in which a zone's offset from UTC does not change; a zero start
// or end is none. before is the offset until its start.
type span struct {
	start, end     time.Time
	offset, before time.Duration
}

func spanOf(at time.Time) span {
	sp := span{offset: offsetOf(at)}
	if sp.start, sp.end = at.ZoneBounds(); !sp.start.IsZero() {
		sp.before = offsetOf(sp.start.Add(-time.Nanosecond))
	}
	return sp
}

func offsetOf(at time.Time) time.Duration {
	_, seconds := at.Zone()
	return time.Duration(seconds) * time.Second
}

// in is the first time in the span that is after another one; zero if there is none.
func (s cronSchedule) in(sp span, after time.Time) time.Time {
	wall := after.UTC().Add(sp.offset)
	if !s.elapse && !sp.start.IsZero() {
		ended := sp.start.UTC().Add(sp.before) // wall-clock time at which the span before ended
		began := sp.start.UTC().Add(sp.offset)
		if after.Before(sp.start) && ended.Before(began) {
			if left := s.wall.Next(ended.Add(-time.Nanosecond)); !left.IsZero() && left.Before(began) {
				return sp.start
			}
		}
		if wall.Before(ended) { // what comes twice has been
			wall = ended.Add(-time.Nanosecond)
		}
	}
	at := s.wall.Next(wall)
	if at.IsZero() {
		return time.Time{}
	}
	at = at.Add(-sp.offset)
	if !sp.end.IsZero() && !at.Before(sp.end) {
		return time.Time{}
	}
	return at
}
