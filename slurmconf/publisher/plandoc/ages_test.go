package plandoc

import (
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// TestAgesByAnnotation has more revisions since the files were written than are kept.
func TestAgesByAnnotation(t *testing.T) {
	written := noon.Add(-time.Hour)
	d := New("a", "b/c")
	for minute := range 2 * MaxHistory {
		d.Add(Revision{Time: noon.Add(time.Duration(minute) * time.Minute), FilesTime: written, Plan: plan("n1", "n2")})
	}
	if got := d.Ages(written).Since("nvl:nvl-1,fabric:l1"); !got.Equal(written) {
		t.Errorf("since %s, want %s, when the files were written", got, written)
	}
	p := plan("n1", "n2")
	p.Topologies[0].Blocks = append(p.Topologies[0].Blocks, topology.Block{Name: "new"})
	now := noon.Add(24 * time.Hour)
	d.Add(Revision{Time: now, Plan: p})
	for spec, want := range map[string]time.Time{"nvl:nvl-1": written, "nvl:new": now} {
		if got := d.Ages(now).Since(spec); !got.Equal(want) {
			t.Errorf("%s since %s, want %s", spec, got, want)
		}
	}
}

func TestAges(t *testing.T) {
	at := func(hours int) time.Time { return noon.Add(time.Duration(hours) * time.Hour) }
	d := New("a", "b/c")
	for hour := range 4 {
		p := plan("n1", "n2")
		switch hour {
		case 0:
			p.Topologies[1].Switches[1].Children = []string{"l1"} // l2 is no leaf yet
		case 1:
			p.Topologies[0].Blocks = p.Topologies[0].Blocks[:1] // nvl-2 is away for an hour
		case 3:
			p.Topologies[0].Blocks = append(p.Topologies[0].Blocks, topology.Block{Name: "nvl-4"})
		}
		d.Add(Revision{Time: at(hour), Plan: p})
	}
	ages := d.Ages(at(5)) // the files came two hours after the plan
	for _, tt := range []struct {
		name, spec string
		want       time.Time
	}{
		{"nothing", "", time.Time{}},
		{"always there", "nvl:nvl-1,fabric:l1", at(0)},
		{"came back", "nvl:nvl-2,fabric:l1", at(2)},
		{"was no leaf", "fabric:l2", at(1)},
		{"new", "nvl:nvl-4,fabric:l1", at(5)},
		{"another topology", "default:nvl-1", at(5)},
		{"unknown", "nvl:nvl-9", at(5)},
	} {
		if got := ages.Since(tt.spec); !got.Equal(tt.want) {
			t.Errorf("%s: %q since %s, want %s", tt.name, tt.spec, got, tt.want)
		}
	}
}
