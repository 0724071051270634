package rundir

import "testing"

func TestRunAfter(t *testing.T) {
	for _, tt := range []struct {
		name       string
		run, other Run
		want       bool
	}{
		{"later", Run{"", "200"}, Run{"", "100"}, true},
		{"earlier", Run{"", "100"}, Run{"", "200"}, false},
		{"same", Run{"", "100"}, Run{"", "100"}, false},
		{"more digits", Run{"", "1000"}, Run{"", "999"}, true},
		{"same SLUID", Run{"s1", "200"}, Run{"s1", "100"}, false},
		{"other SLUID, later", Run{"s2", "200"}, Run{"s1", "100"}, true},
		{"other SLUID, and the clock went back", Run{"s2", "100"}, Run{"s1", "200"}, true},
		{"other SLUID, no time", Run{"s2", ""}, Run{"s1", "100"}, true},
		{"Slurm upgraded in between", Run{"", "100"}, Run{"s1", "100"}, false},
		{"Slurm upgraded, other run", Run{"", "200"}, Run{"s1", "100"}, true},
		{"nothing known", Run{}, Run{"s1", "100"}, false},
	} {
		if got := tt.run.After(tt.other); got != tt.want {
			t.Errorf("%s: %v.After(%v) is %t", tt.name, tt.run, tt.other, got)
		}
	}
}
