package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// aJob is a job with these devices.
func aJob(id string, verdict liveness.Verdict, names ...string) *job {
	record := rundir.Record{JobID: id, GPUs: names}
	return &job{key: id, record: record, now: &record, life: liveness.Run{Verdict: verdict}}
}

// edits writes a plan's edits as "+0:7 -1:8(orphan)".
func edits(p plan) string {
	var out []string
	for _, e := range p.Edits {
		text := fmt.Sprintf("-%s:%s", e.Name, e.Job)
		if e.Add {
			text = "+" + text[1:]
		}
		if e.Reason != "" {
			text += "(" + e.Reason + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestMakePlan(t *testing.T) {
	alive := liveness.Verdict{Proven: true}
	file := func(jobs ...string) dcgm.File { return dcgm.File{Jobs: jobs} }
	moved := aJob("7", alive, "1")
	moved.record = rundir.Record{JobID: "7", GPUs: []string{"0"}}
	taken := aJob("7", liveness.Verdict{}, "0")
	taken.life.Shown = true
	late := orphans{{"0", "9"}: {Looks: 2}}
	for _, tt := range []struct {
		name  string
		facts planFacts
		files map[string]dcgm.File // nil: the directory is missing
		want  string
		dead  int
	}{
		{"all is well", planFacts{Jobs: []*job{aJob("7", alive, "0")}}, map[string]dcgm.File{"0": file("7"), "1": {}}, "", 0},
		{"a living job lacks a line", planFacts{Jobs: []*job{aJob("7", alive, "0", "1")}}, map[string]dcgm.File{"0": file("7")}, "+1:7", 0},
		{"nobody reads the directory", planFacts{Jobs: []*job{aJob("7", alive, "0")}}, nil, "", 0},
		{"an Epilog was killed after it took the line", planFacts{Jobs: []*job{taken}}, map[string]dcgm.File{"0": {}}, "", 0},
		{"the file was removed by hand", planFacts{Jobs: []*job{taken}}, map[string]dcgm.File{}, "+0:7", 0},
		{"a dead job", planFacts{Jobs: []*job{aJob("7", liveness.Verdict{Dead: liveness.Ended}, "0")}}, map[string]dcgm.File{"0": file("7", "8")}, "-0:7(ended)", 1},
		{"a job that nobody sees", planFacts{Jobs: []*job{aJob("7", liveness.Verdict{Hidden: true}, "0")}}, map[string]dcgm.File{"0": file("7")}, "-0:7(ended)", 0},
		{"a device has another id", planFacts{Jobs: []*job{moved}}, map[string]dcgm.File{"0": file("7")}, "+1:7 -0:7", 0},
		{"a line without a record", planFacts{}, map[string]dcgm.File{"0": file("9")}, "", 0},
		{"for the grace", planFacts{Orphans: late, Up: time.Minute}, map[string]dcgm.File{"0": file("9")}, "-0:9(orphan)", 0},
		{"its steps are seen", planFacts{Orphans: late, Up: time.Minute, Alive: map[string]bool{"9": true}}, map[string]dcgm.File{"0": file("9")}, "", 0},
		{"its record cannot be read", planFacts{Orphans: late, Up: time.Minute, Broken: map[string]bool{"9": true}}, map[string]dcgm.File{"0": file("9")}, "", 0},
		{"its Epilog has left a mark", planFacts{Ended: map[string]bool{"9": true}}, map[string]dcgm.File{"0": file("9")}, "-0:9(ended)", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.facts.Mapping.Files = tt.files
			p := makePlan(tt.facts)
			if got := edits(p); got != tt.want || len(p.Dead) != tt.dead {
				t.Errorf("%q and %d dead, want %q and %d", got, len(p.Dead), tt.want, tt.dead)
			}
		})
	}
	old := dcgm.Held{Boot: "old", Files: map[string]dcgm.File{"0": file("9")}}
	if got := edits(makePlan(planFacts{Boot: "new", Mapping: old})); got != "-0:9(boot)" {
		t.Errorf("a line of another boot: %q", got)
	}
}

// TestOrphans counts for how long lines belong to no job, and begins again when one
// has belonged to a job.
func TestOrphans(t *testing.T) {
	o, l := orphans{}, mapLine{"0", "9"}
	for i, step := range []struct {
		up   time.Duration
		seen bool
		late bool
	}{{0, true, false}, {10 * time.Second, true, false}, {20 * time.Second, true, true}, {30 * time.Second, false, false}, {60 * time.Second, true, false}} {
		o.note(map[mapLine]bool{l: true}, step.up)
		if !step.seen {
			o.note(nil, step.up)
		}
		if o[l].Late(step.up) != step.late {
			t.Errorf("step %d: late %t, want %t", i, !step.late, step.late)
		}
	}
}
