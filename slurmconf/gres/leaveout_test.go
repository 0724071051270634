package gres

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// TestLeaveOut leaves GPUs out of a node's lines, and says what it could not follow.
func TestLeaveOut(t *testing.T) {
	eight := func() *topology.Node { return machine(0, 1, 2, 3, 4, 5, 6, 7) }
	uuid := eight().GPUs[3].UUID
	before, _ := linesOf(t, eight(), nil)
	for name, tt := range map[string]struct {
		node     *topology.Node
		left     []string
		options  Options
		old      []Line
		want     []string // the files of the lines
		problems []string
	}{
		"by file":                  {node: eight(), left: []string{"/dev/nvidia7"}, want: []string{"/dev/nvidia[0-6]"}},
		"by UUID":                  {node: eight(), left: []string{uuid}, want: []string{"/dev/nvidia[0-2,4-7]"}},
		"all lines were published": {node: eight(), left: []string{uuid, "/dev/nvidia0"}, old: before, want: []string{"/dev/nvidia[1-2,4-7]"}},
		"detected elsewhere":       {node: eight(), left: []string{"/dev/nvidia7"}, options: Options{AutoDetect: AutoDetectNVML}, want: []string{"/dev/nvidia[0-6]"}},
		"all":                      {node: machine(0, 1), left: []string{"/dev/nvidia0", "/dev/nvidia1"}, old: linesIn(t, machine(0, 1))},
		"another GPU is lost":      {node: with(machine(0, 1, 2, 4, 5, 6, 7), problem("GPULost")), left: []string{"/dev/nvidia7"}, old: before, want: []string{"/dev/nvidia[0-6]"}, problems: []string{"GPUMissing n1: reports 6 GPU devices, 7 before; gres.conf stays as it is, because slurmctld drains a node with fewer GPUs than Gres= has"}},
		"the GPU itself is lost":   {node: with(machine(0, 1, 2, 4, 5, 6, 7), problem("GPULost")), left: []string{"/dev/nvidia3"}, old: before, want: []string{"/dev/nvidia[0-2,4-7]"}},
		"no such GPU":              {node: eight(), left: []string{"GPU-x", "/dev/nvidia9"}, want: []string{"/dev/nvidia[0-7]"}, problems: []string{"LeaveOutUnknown n1: gres.leaveOut names GPU-x, which its report does not have: it leaves out nothing", "LeaveOutUnknown n1: gres.leaveOut names /dev/nvidia9, which its report does not have: it leaves out nothing"}},
		"no report":                {left: []string{"/dev/nvidia7"}, old: before, want: []string{"/dev/nvidia[0-6]"}, problems: []string{"NoGresLine n1: it has no report, and gres.leaveOut names GPUs of it; its GPUs stay as published"}},
		"MIG":                      {node: cut(eight(), "1g.10gb", 1, 10), left: []string{"/dev/nvidia1"}, old: linesIn(t, cut(eight(), "1g.10gb", 1, 10)), want: slices.Delete(filesOfLines(linesIn(t, cut(eight(), "1g.10gb", 1, 10))), 1, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			o := tt.options
			o.LeaveOut = map[string][]string{"n1": tt.left}
			f := topology.Facts{Name: "n1", SlurmName: "w-1", Report: tt.node, Labels: topology.Labels{GPUs: 8}}
			lines, problems := FromFacts([]topology.Facts{f}, map[string][]Line{"w-1": tt.old}, o)
			if diff := cmp.Diff(tt.want, filesOfLines(lines)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			var said []string
			for _, p := range problems {
				said = append(said, p.Reason+" "+p.Node+": "+p.Message)
			}
			if diff := cmp.Diff(tt.problems, said); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if counted := o.Without([]topology.Facts{f})[0].GPUCount(); tt.node != nil && len(tt.problems) == 0 && !f.HasMIG() && uint64(counted) != devices(lines) {
				t.Errorf("%d GPUs are counted, and the lines have %d", counted, devices(lines))
			}
			if tt.node != nil && len(o.allUndetected([]topology.Facts{f})) != 1 {
				t.Error("slurmd would find the GPUs that are left out")
			}
		})
	}
	_, problems := FromFacts([]topology.Facts{{Name: "n1", SlurmName: "n1", Report: eight()}}, nil, Options{LeaveOut: map[string][]string{"n9": {"/dev/nvidia0"}}})
	if len(problems) != 1 || problems[0].Reason != ReasonLeaveOut || problems[0].Node != "n9" {
		t.Errorf("a node that nobody knows: %v", problems)
	}
}

func linesIn(t *testing.T, n *topology.Node) []Line {
	lines, _ := linesOf(t, n, nil)
	return lines
}

// filesOfLines has the files of each line as it is written.
func filesOfLines(lines []Line) (files []string) {
	for _, l := range lines {
		files = append(files, fileList(append(l.Files, l.MultipleFiles...)))
	}
	return files
}
