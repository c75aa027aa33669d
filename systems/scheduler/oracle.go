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
	fields := strings.Fields(expression)
	star := strings.HasPrefix(fields[0], "*") || strings.HasPrefix(fields[1], "*")
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

// readCron reads five fields of numbers, names, ranges, lists and steps.
func readCron(expression string) (o oracleFields, err error) {
	fields := strings.Fields(expression)
	if len(fields) != 5 {
		return o, fmt.Errorf("cron expression %q has %d fields", expression, len(fields))
	}
	limits := [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}}
	for i, field := range fields {
		for part := range strings.SplitSeq(field, ",") {
			values, err := readPart(numbered(i, part), limits[i][0], limits[i][1])
			if err != nil {
				return o, fmt.Errorf("cron expression %q: %w", expression, err)
			}
			o.values[i] = append(o.values[i], values...)
			o.anyDay = o.anyDay || (i == 2 || i == 4) && (part == "*" || part == "*/1")
		}
	}
	return o, nil
}

// numbered puts numbers in the place of names of months and days of the week.
func numbered(field int, part string) string {
	part = strings.ToLower(part)
	for month := time.January; field == 3 && month <= time.December; month++ {
		name := strings.ToLower(month.String()[:3])
		part = strings.ReplaceAll(part, name, strconv.Itoa(int(month)))
	}
	for day := time.Sunday; field == 4 && day <= time.Saturday; day++ {
		name := strings.ToLower(day.String()[:3])
		part = strings.ReplaceAll(part, name, strconv.Itoa(int(day)))
	}
	return part
}

// oracleFields are the values of minute, hour, day, month and weekday.
type oracleFields struct {
	values [5][]int
	// anyDay: one of the days is a star, so that only the other counts. A star with a
	// step is given, as POSIX has it, which knows no steps.
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

// readPart reads one element of a list.
func readPart(part string, low, high int) (values []int, err error) {
	rest, step, stepped := strings.Cut(part, "/")
	from, to, every := low, high, 1
	if rest != "*" {
		first, last, ranged := strings.Cut(rest, "-")
		if from, err = strconv.Atoi(first); err != nil {
			return nil, fmt.Errorf("element %q: %w", part, err)
		}
		if to = from; ranged {
			if to, err = strconv.Atoi(last); err != nil {
				return nil, fmt.Errorf("element %q: %w", part, err)
			}
		} else if stepped {
			to = high
		}
	}
	if stepped {
		if every, err = strconv.Atoi(step); err != nil || every < 1 {
			return nil, fmt.Errorf("element %q has a bad step", part)
		}
	}
	if from < low || from > to || to > high {
		return nil, fmt.Errorf("element %q is no range within %d to %d", part, low, high)
	}
	for v := from; v <= to; v += every {
		values = append(values, v)
	}
	return values, nil
}
