package probe

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// machine is one whose samples are of whatever is wanted.
type machine struct{ wanted []string }

func (m *machine) Read() (*topology.Node, error) { return &topology.Node{}, nil }
func (m *machine) Want(uuids []string)           { m.wanted = uuids }
func (m *machine) Sample() (s topology.Sample) {
	for _, uuid := range m.wanted {
		s.Devices = append(s.Devices, topology.DeviceUse{UUID: uuid, Processes: new(1)})
	}
	return s
}

// Look has all devices, and tells which of them are wanted.
func (m *machine) Look() topology.Sample {
	s := topology.Sample{Xids: map[string]topology.XidCounts{}, Programs: map[string][]topology.Program{"GPU-a": {}, "GPU-b": {}, "GPU-c": {}}}
	for _, uuid := range m.wanted {
		s.Xids[uuid] = topology.XidCounts{Since: 1}
	}
	return s
}

// TestServeLooksAtOnce: an order for other devices brings a look at all devices at once, with what
// is known of the old ones. An order for the same devices brings none.
func TestServeLooksAtOnce(t *testing.T) {
	in, orders := io.Pipe()
	lines, out := io.Pipe()
	done := make(chan error)
	go func() {
		done <- Serve(t.Context(), &machine{}, Options{Node: "n1", Interval: time.Hour, In: in, Out: out, Errors: io.Discard})
	}()
	scanner := bufio.NewScanner(lines)
	next := func() string {
		t.Helper()
		if !scanner.Scan() {
			t.Fatal(scanner.Err())
		}
		if !IsSample(scanner.Bytes()) {
			return "report"
		}
		s, err := ParseSample(scanner.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Devices) > 0 {
			t.Errorf("%+v: want no use of devices", s.Devices)
		}
		if len(s.Programs) != 3 {
			t.Errorf("programs on %d devices, want all 3", len(s.Programs))
		}
		return strings.TrimSpace("look " + strings.Join(slices.Sorted(maps.Keys(s.Xids)), " "))
	}
	got := []string{next(), next()}
	for _, order := range []string{"GPU-a,GPU-b", "GPU-b,GPU-c", "GPU-c,GPU-b"} {
		if _, err := io.WriteString(orders, "sample 1h "+order+"\n"); err != nil {
			t.Fatal(err)
		}
		if order != "GPU-c,GPU-b" {
			got = append(got, next())
		}
	}
	if _, err := io.WriteString(orders, "sample off\n"); err != nil {
		t.Fatal(err)
	}
	got = append(got, next())
	if diff := cmp.Diff([]string{"report", "look", "look", "look GPU-a GPU-b", "look GPU-b GPU-c"}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	_ = orders.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestServeLooksEachMinute looks at the devices when it begins, and once a minute while no job
// holds any.
func TestServeLooksEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*LookEvery+time.Second)
		defer cancel()
		in, orders := io.Pipe()
		defer func() { _ = orders.Close() }()
		var out bytes.Buffer
		if err := Serve(ctx, &machine{}, Options{Node: "n1", Interval: time.Hour, In: in, Out: &out, Errors: io.Discard}); err != nil {
			t.Fatal(err)
		}
		looks := 0
		for line := range bytes.Lines(out.Bytes()) {
			if IsSample(line) {
				looks++
			}
		}
		if looks != 6 {
			t.Errorf("%d looks, want 6", looks)
		}
	})
}
