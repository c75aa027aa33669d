package scheduler

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cronOracle lists the times of a cron expression in (from, to] as the judges
// reckon them: it looks at every minute that passes and reads the zone's clock.
// It shares no code with cronSchedule, which says what the rules are.
func cronOracle(expression, zone string, from, to time.Time) ([]time.Time, error) {
	o, err := readCron(expression)
	if err != nil {
		return nil, err
	}
	place, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("zone %q: %w", zone, err)
	}
	star := strings.HasPrefix(expression, "*") || strings.HasPrefix(strings.Fields(expression)[1], "*")
	var list []time.Time
	for at := from.Truncate(time.Minute).Add(time.Minute); !at.After(to); at = at.Add(time.Minute) {
		local := at.In(place)
		runs := o.matches(local)
		switch shift := shiftBefore(local); {
		case star:
		case shift > 0: // the clock was put forward: what was left out is due at once
			last := local.Add(-time.Minute)
			wall := time.Date(last.Year(), last.Month(), last.Day(), last.Hour(), last.Minute(), 0, 0,
				time.UTC)
			for left := time.Minute; left <= shift; left += time.Minute {
				runs = runs || o.matches(wall.Add(left))
			}
		default:
			runs = runs && !passedBefore(local)
		}
		if runs {
			list = append(list, at.UTC())
		}
	}
	return list, nil
}

// shiftBefore is by how much the clock was put forward at this minute.
func shiftBefore(local time.Time) time.Duration {
	_, now := local.Zone()
	_, before := local.Add(-time.Minute).Zone()
	return time.Duration(now-before) * time.Second
}

// passedBefore says whether the clock has shown this time in the three hours
// before, because it was put back since.
func passedBefore(local time.Time) bool {
	const face = "2006-01-02 15:04"
	for ago := time.Minute; ago <= 3*time.Hour; ago += time.Minute {
		if local.Add(-ago).Format(face) == local.Format(face) {
			return true
		}
	}
	return false
}

// readCron reads five fields of numbers, ranges, lists and steps.
func readCron(expression string) (o oracleFields, err error) {
	fields := strings.Fields(expression)
	if len(fields) != 5 {
		return o, fmt.Errorf("cron expression %q has %d fields", expression, len(fields))
	}
	limits := [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}}
	for i, field := range fields {
		if o.values[i], err = readField(field, limits[i][0], limits[i][1]); err != nil {
			return o, fmt.Errorf("cron expression %q: %w", expression, err)
		}
	}
	o.anyDay = strings.HasPrefix(fields[2], "*") || strings.HasPrefix(fields[4], "*")
	return o, nil
}

// oracleFields are the values of minute, hour, day, month and weekday.
type oracleFields struct {
	values [5][]int
	// anyDay: one of the days begins with a star, so that both must match.
	anyDay bool
}

func (o oracleFields) matches(at time.Time) bool {
	has := func(field, value int) bool { return slices.Contains(o.values[field], value) }
	day := has(2, at.Day())
	weekday := has(4, int(at.Weekday())) || at.Weekday() == time.Sunday && has(4, 7)
	days := day && weekday
	if !o.anyDay {
		days = day || weekday
	}
	return has(0, at.Minute()) && has(1, at.Hour()) && has(3, int(at.Month())) && days
}

func readField(field string, low, high int) (values []int, err error) {
	for part := range strings.SplitSeq(field, ",") {
		rest, step, stepped := strings.Cut(part, "/")
		from, to, every := low, high, 1
		if rest != "*" {
			first, last, ranged := strings.Cut(rest, "-")
			if from, err = strconv.Atoi(first); err != nil {
				return nil, fmt.Errorf("field %q: %w", field, err)
			}
			if to = from; ranged {
				if to, err = strconv.Atoi(last); err != nil {
					return nil, fmt.Errorf("field %q: %w", field, err)
				}
			} else if stepped {
				to = high
			}
		}
		if stepped {
			if every, err = strconv.Atoi(step); err != nil || every < 1 {
				return nil, fmt.Errorf("field %q has a bad step", field)
			}
		}
		for v := from; v <= to; v += every {
			values = append(values, v)
		}
	}
	return values, nil
}
