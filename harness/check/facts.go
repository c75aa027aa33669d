package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"

	"stampede/harness/bounds"
	"stampede/harness/history"
)

// Fact is one row of an audit, or what one record says, in the columns that all families
// share. A column that a table does not have is zero and is not compared.
type Fact struct {
	// Op is the operation that brought the row about, 0 if it is not known.
	Op uint64
	// Name is what the system assigned: of a record, Reply.Key. Key is the object, Op.Key,
	// and Owner who asked for it, Op.Client.
	Name, Key, Owner string
	// Thing is which one of Key it is, or how many: of a record, Reply.Value.
	Thing int64
	// State is what the row is at the end. In a log it is what the change led to, Before is
	// what it led from and Cause is why.
	State, Before, Cause string
	// Version counts the changes of a thing. Seq orders the rows of a log.
	Version, Seq int64
	// From, inclusive, and To, exclusive, are a span on one axis: nanoseconds of the store's
	// clock, or nights of a calendar. To is 0 while the span lasts.
	From, To int64
}

// Lasted is how long a row that is over lasted, if its span is one of nanoseconds.
func (f *Fact) Lasted() time.Duration { return time.Duration(f.To - f.From) }

// Said is what a record says in the columns of a Fact; see there.
func Said(r *history.Record) Fact {
	return Fact{Op: r.Op.ID, Name: r.Reply.Key, Key: r.Op.Key, Owner: r.Op.Client,
		Thing: r.Reply.Value}
}

// Misread reads the body of a reply into a structure, and says why it cannot be read or which value
// in it is out of its bounds, "" if all is well: a promise that is never due cannot be broken.
func Misread(rec *history.Record, into any) string {
	if err := json.Unmarshal(rec.Reply.Body, into); err != nil {
		return fmt.Sprintf("a reply cannot be read: %v", err)
	}
	if err := bounds.Check(into); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return "a reply is out of its bounds: " + first
	}
	return ""
}

// Table is a list of the facts in an audit. Its rows must not be modified.
type Table struct {
	// Name is that of one row, such as "order".
	Name string
	Rows []Fact
	// has are the columns that rows have; given is false if the audit left the list out.
	has   By
	given bool
	// byOp and byName are made when they are first asked for; next leads from a row to the
	// next one of its operation, and is nil where each has one.
	byOp   map[uint64]int32
	next   map[int32]int32
	byName map[string]int32
}

// Rows makes a table of the rows of an audit, which are structures whose fields have tags
// such as `fact:"owner"`: the name of a column of Fact in lower case, or several with commas
// between them. Texts go into columns of texts, integers into both kinds. It panics if a tag
// names no column or the types do not fit. A list that is nil was left out of the audit.
func Rows[T any](name string, rows []T) *Table {
	columns := columnsOf(reflect.TypeFor[T]())
	facts := make([]Fact, len(rows))
	for i := range rows {
		row := reflect.ValueOf(&rows[i]).Elem()
		for _, c := range columns {
			c.set(&facts[i], row)
		}
	}
	t := TableOf(name, facts)
	t.given = rows != nil
	for _, c := range columns {
		t.has |= c.by
	}
	return t
}

// TableOf makes a table of facts that a system computed. It has the columns that are not
// zero in some row.
func TableOf(name string, facts []Fact) *Table {
	t := &Table{Name: name, Rows: facts, given: true}
	for i := range facts {
		t.has |= filled(&facts[i])
	}
	return t
}

// Op is the first row that an operation brought about, nil if there is none.
func (t *Table) Op(op uint64) *Fact {
	if i, there := t.ops()[op]; there {
		return &t.Rows[i]
	}
	return nil
}

// ops are the first rows of operations.
func (t *Table) ops() map[uint64]int32 {
	if t.byOp != nil {
		return t.byOp
	}
	t.byOp, t.next = make(map[uint64]int32, len(t.Rows)), make(map[int32]int32)
	for i := len(t.Rows) - 1; i >= 0; i-- {
		op := t.Rows[i].Op
		if later, there := t.byOp[op]; there {
			t.next[int32(i)] = later
		}
		t.byOp[op] = int32(i)
	}
	return t.byOp
}

// from are a row and those after it of the same operation.
func (t *Table) from(i int32) iter.Seq[*Fact] {
	return func(yield func(*Fact) bool) {
		for there := true; there && yield(&t.Rows[i]); i, there = t.next[i] {
		}
	}
}

// Named is the row of a name, the last one if there are several, nil if there is none.
func (t *Table) Named(name string) *Fact {
	if t.byName == nil {
		t.byName = make(map[string]int32, len(t.Rows))
		for i := range t.Rows {
			t.byName[t.Rows[i].Name] = int32(i)
		}
		delete(t.byName, "")
	}
	if i, there := t.byName[name]; there {
		return &t.Rows[i]
	}
	return nil
}

// Has reports whether rows have all of some columns.
func (t *Table) Has(columns By) bool { return t.has&columns == columns }

// alike is the rows of a group.
type alike struct {
	Group
	rows []*Fact
}

// groups are the rows that are wanted by some columns, in the order of the table; nil wants
// all.
func (t *Table) groups(by By, wanted func(*Fact) bool) (list []*alike) {
	known := make(map[Group]*alike)
	for i := range t.Rows {
		f := &t.Rows[i]
		if wanted != nil && !wanted(f) {
			continue
		}
		g := by.Of(f)
		if known[g] == nil {
			known[g] = &alike{Group: g}
			list = append(list, known[g])
		}
		known[g].rows = append(known[g].rows, f)
	}
	return list
}

// first makes a function that finds the first row of a fact's group, nil if there is none.
func (t *Table) first(by By, wanted func(*Fact) bool) func(*Fact) *Fact {
	if by == ByOp && wanted == nil {
		return func(f *Fact) *Fact { return t.Op(f.Op) }
	}
	first := make(map[Group]*Fact, len(t.Rows))
	for i := range t.Rows {
		f := &t.Rows[i]
		if g := by.Of(f); first[g] == nil && (wanted == nil || wanted(f)) {
			first[g] = f
		}
	}
	return func(f *Fact) *Fact { return first[by.Of(f)] }
}

// Label names a row in a violation: "order o7 of buyer-3 (held)".
func (t *Table) Label(f *Fact) string {
	text := t.Name + " " + cmp.Or(f.Name, Group{Key: f.Key, Thing: f.Thing}.String(),
		fmt.Sprintf("of operation %d", f.Op))
	if f.Owner != "" {
		text += " of " + f.Owner
	}
	if f.State != "" {
		text += " (" + f.State + ")"
	}
	return text
}

// By is a set of columns: those by which facts are grouped or compared.
type By uint8

// The columns.
const (
	ByOp By = 1 << iota
	ByName
	ByKey
	ByOwner
	ByThing
	ByState
	ByVersion
)

// Group is the values of some columns.
type Group struct {
	Op                      uint64
	Name, Key, Owner, State string
	Thing, Version          int64
}

// Of is the group of a fact.
func (b By) Of(f *Fact) (g Group) {
	if b&ByOp != 0 {
		g.Op = f.Op
	}
	if b&ByName != 0 {
		g.Name = f.Name
	}
	if b&ByKey != 0 {
		g.Key = f.Key
	}
	if b&ByOwner != 0 {
		g.Owner = f.Owner
	}
	if b&ByThing != 0 {
		g.Thing = f.Thing
	}
	if b&ByState != 0 {
		g.State = f.State
	}
	if b&ByVersion != 0 {
		g.Version = f.Version
	}
	return g
}

// filled are the columns of a fact that are not zero.
func filled(f *Fact) (b By) {
	for column := ByOp; column <= ByVersion && column != 0; column <<= 1 {
		if column.Of(f) != (Group{}) {
			b |= column
		}
	}
	return b
}

// String names a group: "item-1 7 of buyer-3".
func (g Group) String() string {
	var words []string
	add := func(present bool, text string) {
		if present {
			words = append(words, text)
		}
	}
	add(g.Op != 0, fmt.Sprintf("operation %d", g.Op))
	add(g.Name != "", g.Name)
	add(g.Key != "", g.Key)
	add(g.Thing != 0, strconv.FormatInt(g.Thing, 10))
	add(g.Owner != "", "of "+g.Owner)
	add(g.State != "", "("+g.State+")")
	add(g.Version != 0, fmt.Sprintf("version %d", g.Version))
	return strings.Join(words, " ")
}

// column is a field of a row that is a column of its fact.
type column struct {
	from []int // the field's index in the row
	to   int   // the column's in Fact
	by   By
}

// columnsOf reads the tags of a row's type.
func columnsOf(row reflect.Type) (columns []column) {
	fact := reflect.TypeFor[Fact]()
	for _, field := range reflect.VisibleFields(row) {
		for name := range strings.SplitSeq(field.Tag.Get("fact"), ",") {
			if name == "" {
				continue
			}
			to, known := fact.FieldByNameFunc(func(s string) bool { return strings.ToLower(s) == name })
			if !known || !fits(field.Type.Kind(), to.Type.Kind()) {
				panic(fmt.Sprintf("check: %v.%s of type %v cannot be the column %q of a fact",
					row, field.Name, field.Type, name))
			}
			columns = append(columns, column{field.Index, to.Index[0], byOf(to.Name)})
		}
	}
	return columns
}

// byOf is the column of a name by which facts can be grouped, 0 if they cannot.
func byOf(name string) By {
	return map[string]By{"Op": ByOp, "Name": ByName, "Key": ByKey, "Owner": ByOwner,
		"Thing": ByThing, "State": ByState, "Version": ByVersion}[name]
}

// fits says whether a column of a kind takes a field of another.
func fits(field, column reflect.Kind) bool {
	integer := reflect.Int <= field && field <= reflect.Uint64
	return integer || field == reflect.String && column == reflect.String
}

// set copies the column from a row to its fact.
func (c column) set(f *Fact, row reflect.Value) {
	from, to := row.FieldByIndex(c.from), reflect.ValueOf(f).Elem().Field(c.to)
	switch {
	case from.Kind() == reflect.String:
		to.SetString(from.String())
	case to.Kind() == reflect.String:
		to.SetString(fmt.Sprint(from.Interface()))
	case from.CanUint() && to.CanUint():
		to.SetUint(from.Uint())
	case from.CanUint():
		to.SetInt(int64(from.Uint()))
	case to.CanUint():
		to.SetUint(uint64(from.Int()))
	default:
		to.SetInt(from.Int())
	}
}
