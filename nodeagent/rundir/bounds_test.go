package rundir

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// TestEveryListHasABound fails for a list that was added to a file without a tag.
func TestEveryListHasABound(t *testing.T) {
	var check func(typ reflect.Type)
	check = func(typ reflect.Type) {
		if typ == reflect.TypeFor[time.Time]() {
			return
		}
		switch typ.Kind() { //nolint:exhaustive // numbers need no bound
		case reflect.Pointer, reflect.Slice:
			check(typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				if limit, _ := strconv.Atoi(f.Tag.Get("max")); f.Type.Kind() == reflect.Slice && limit == 0 {
					t.Errorf("%s.%s has no tag max", typ, f.Name)
				}
				check(f.Type)
			}
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[Record](), reflect.TypeFor[Inventory](), reflect.TypeFor[HookConfig](), reflect.TypeFor[Summary](), reflect.TypeFor[unowned]()} {
		check(of)
	}
	for field, want := range map[string]int{"GPUs": MaxDevices, "Warnings": MaxWarnings} {
		if f, _ := reflect.TypeFor[Record]().FieldByName(field); f.Tag.Get("max") != strconv.Itoa(want) {
			t.Errorf("%s has the tag %s, want %d", field, f.Tag, want)
		}
	}
	if f, _ := reflect.TypeFor[DeviceUse]().FieldByName("Before"); f.Tag.Get("max") != strconv.Itoa(topology.MaxPrograms) {
		t.Errorf("programs before a job have the tag %s, want %d", f.Tag, topology.MaxPrograms)
	}
}
