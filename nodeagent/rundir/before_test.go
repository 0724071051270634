package rundir

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// noProgram was on any device before the job.
func noProgram(string) []uint32 { return nil }

// TestBefore follows programs that were on a device before the job.
func TestBefore(t *testing.T) {
	const gib = 1 << 30
	on := func(memory uint64, pids ...uint32) []topology.Program {
		programs := []topology.Program{}
		for _, pid := range pids {
			programs = append(programs, topology.Program{PID: pid, Memory: &memory})
		}
		return programs
	}
	for _, tt := range []struct {
		name    string
		before  []uint32
		samples [][]topology.Program
		pids    []uint32
		memory  uint64
	}{
		{"none", nil, [][]topology.Program{on(gib, 7)}, nil, 0},
		{"one stays", []uint32{7}, [][]topology.Program{on(70*gib, 7), on(70*gib, 7, 8)}, []uint32{7}, 70 * gib},
		{"it takes more memory later", []uint32{7}, [][]topology.Program{on(gib, 7), on(2*gib, 7)}, []uint32{7}, gib},
		{"it had ended when the job began", []uint32{7}, [][]topology.Program{on(gib, 8)}, nil, 0},
		{"it ends, and its number is used again", []uint32{7}, [][]topology.Program{on(gib, 7), on(gib), on(gib, 7)}, nil, gib},
		{"programs are not known for a while", []uint32{7}, [][]topology.Program{nil, on(gib, 7)}, []uint32{7}, gib},
		{"its memory is not known", []uint32{7}, [][]topology.Program{{{PID: 7}}}, []uint32{7}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := NewUse("7", Run{}, first)
			u.Hold([]Entry{{UUID: "GPU-a"}}, func(string) []uint32 { return tt.before })
			for _, programs := range tt.samples {
				s := topology.Sample{}
				if programs != nil {
					s.Programs = map[string][]topology.Program{"GPU-a": programs}
				}
				u.Add(s, first.Add(every), every)
				u.Hold([]Entry{{UUID: "GPU-a"}}, func(string) []uint32 { return []uint32{99} }) // it is held already
			}
			d := u.Devices[0]
			if diff := cmp.Diff(tt.pids, append([]uint32(nil), d.Before...)); diff != "" || d.BeforeMemory != tt.memory {
				t.Errorf("%d bytes, want %d; programs (-want +got):\n%s", d.BeforeMemory, tt.memory, diff)
			}
		})
	}
}
