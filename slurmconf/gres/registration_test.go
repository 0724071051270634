package gres

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// near gives all GPUs of a machine with the sockets of socketed one affinity.
func near(n *topology.Node, cpus string) *topology.Node {
	socketed(n)
	for i := range n.GPUs {
		n.GPUs[i].CPUAffinity = cpus
	}
	return n
}

// TestUndetected names the nodes whose GPUs slurmd does not find by itself. A real slurmd and slurmctld
// say the same in TestRealRegistration.
func TestUndetected(t *testing.T) {
	four := func() *topology.Node { return socketed(machine(0, 1, 2, 3)) }
	fourSockets := with(four(), func(n *topology.Node) {
		n.Sockets = []topology.Socket{{CPUs: "0-3", Cores: 4}, {CPUs: "4-7", Cores: 4}, {CPUs: "8-11", Cores: 4}, {CPUs: "12-15", Cores: 4}}
		for i := range n.GPUs {
			n.GPUs[i].CPUAffinity = "4-11"
		}
	})
	const part = "/dev/nvidia0 is next to CPUs 0-1,8-9, which are not one whole socket or all, and slurmctld drains a node that detects such a GPU"
	const differs = "slurmd finds its GPUs otherwise than they are listed: their Types, Cores or Links differ"
	for _, tt := range []struct {
		name string
		o    Options
		node *topology.Node // nil: labels alone
		want string         // empty: it finds them
	}{
		{"whole sockets", Options{}, four(), ""},
		{"whole sockets, and their Cores are listed", Options{Cores: true}, four(), ""},
		{"all CPUs", Options{}, near(machine(0, 1), "0-15"), ""},
		{"a socket more than once", Options{}, near(machine(0, 1), "0-3,8-11,0-3"), ""},
		{"a part of a socket", Options{}, near(machine(0, 1), "0-1,8-9"), part},
		{"a part of a socket, and the socket's Cores are listed", Options{Cores: true}, near(machine(0, 1), "0-1,8-9"), part},
		{"one thread of each core", Options{}, near(machine(0), "0-3"), "/dev/nvidia0 is next to CPUs 0-3, which are not one whole socket or all, and slurmctld drains a node that detects such a GPU"},
		{"a socket and a part of the other", Options{}, near(machine(0), "0-4,8-11"), "/dev/nvidia0 is next to CPUs 0-4,8-11, which are not one whole socket or all, and slurmctld drains a node that detects such a GPU"},
		{"two sockets of four", Options{}, fourSockets, "/dev/nvidia0 is next to CPUs 4-11, which are not one whole socket or all, and slurmctld drains a node that detects such a GPU"},
		{"two sockets of four, before 25.05", Options{SeveralSockets: true}, fourSockets, ""},
		{"no affinity", Options{}, near(machine(0), ""), "its report does not say which sockets /dev/nvidia0 is next to"},
		{"CPUs that no socket has", Options{}, near(machine(0), "0-99"), "its report does not say which sockets /dev/nvidia0 is next to"},
		{"no sockets", Options{}, machine(0, 1), "its report does not say which sockets /dev/nvidia0 is next to"},
		{"MIG", Options{}, cut(four(), "1g.5gb", 2, 10), unseenMIG},
		{"labels alone", Options{}, nil, ""},
		{"no GPUs", Options{}, machine(), ""},
		{"links", Options{}, joined(socketed(machine(0, 1)), 4, [2]int{0, 1}), differs},
		{"a Type of the site", Options{Types: map[string]string{"NVIDIA A100": "big"}}, four(), differs},
		{"a Type of the site that is in the product", Options{Types: map[string]string{"NVIDIA A100": "a100"}}, four(), ""},
		{"a Type that is no part of the product", Options{}, with(four(), func(n *topology.Node) {
			for i := range n.GPUs {
				n.GPUs[i].Product = "NVIDIA 6000"
			}
		}), differs},
		{"two Types", Options{}, with(four(), func(n *topology.Node) { n.GPUs[3].Product = "NVIDIA H100" }), differs},
		{"another order", Options{}, socketed(machine(1, 0)), ""},
		{"GPUs are left out", Options{LeaveOut: map[string][]string{"n1": {"/dev/nvidia7"}}}, four(), "gres.leaveOut names GPUs of it"},
		{"no minor number", Options{}, with(four(), func(n *topology.Node) { n.GPUs[1].Minor = nil }), "its report does not have product and minor number of GPU GPU-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // nodes that are alike are judged once
				facts := factsOf([]*topology.Node{tt.node, tt.node})
				if got := tt.o.allUndetected(facts); got["n1"] != tt.want || tt.o.LeaveOut == nil && got["n2"] != tt.want {
					t.Errorf("%q, want %q", got, tt.want)
				}
			}
		})
	}
}

func TestAlike(t *testing.T) {
	const two, three = "NodeName=n[1-2] Name=gpu File=/dev/nvidia[0-3]\n", "NodeName=n3 Name=gpu File=/dev/nvidia[0-7]\n"
	const mig = "NodeName=n[1-2] Name=gpu MultipleFiles=/dev/nvidia4,/dev/nvidia-caps/nvidia-cap21\n"
	for _, tt := range []struct {
		name, text string
		want       string // empty: no lines are right for all
	}{
		{"none", "", ""},
		{"all alike", two + mig, "Name=gpu File=/dev/nvidia[0-3]\nName=gpu MultipleFiles=/dev/nvidia4,/dev/nvidia-caps/nvidia-cap21\n"},
		{"two kinds", two + three, ""},
		{"a node without a report", two + "NodeName=n3 AutoDetect=nvidia\n", "Name=gpu File=/dev/nvidia[0-3]\n"},
		{"all detect", "NodeName=n[1-2] AutoDetect=nvidia\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, err := Parse("gres.conf", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			byNode := ByNode(lines, nil)
			got, err := Render(Alike(byNode), "")
			if diff := cmp.Diff(tt.want, string(got)); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			again, err := Render(ByName(byNode), "")
			if diff := cmp.Diff(sorted(tt.text), sorted(string(again))); diff != "" || err != nil {
				t.Errorf("by name: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func sorted(text string) []string { return slices.Sorted(strings.Lines(text)) }
