package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckAsks compares files with a Slurm that a script plays.
func TestCheckAsks(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "scontrol")
	files := map[string]string{
		"topology.conf": "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2\n",
		"shown":         "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n",
		"nodes":         `{"nodes":[{"name":"n1","slurmd_start_time":{"number":1}},{"name":"n2","slurmd_start_time":{"number":1}},{"name":"n3","slurmd_start_time":{"number":1}},{"name":"n4","slurmd_start_time":{"number":1}}]}`,
		"scontrol":      "#!/bin/sh\ncase \"$*\" in\n'--all --json show nodes') cat " + dir + "/nodes;;\n'show topology') cat " + dir + "/shown;;\n*) exit 1;;\nesac\n",
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		write(name, text)
	}
	check := func(wantCode int, want string) {
		t.Helper()
		code, out, errs := quoin(t, "", "check", filepath.Join(dir, "topology.conf"), "--set", "publicationDefaults.slurm.scontrol="+program)
		if code != wantCode || out+errs != want {
			t.Errorf("exit %d, said %q, want %d and %q", code, out+errs, wantCode, want)
		}
	}
	check(0, "compared: topology default\nsame: Slurm has all 4 nodes where the plan has them\n")
	write("nodes", strings.Replace(files["nodes"], `{"name":"n1",`, `{"name":"n1","topology":"default:b2",`, 1))
	check(1, "n1: SlurmDiffers: Slurm has it in default:b2 by its own Topology=, published is default:b1: scontrol update nodename=NAME topology=default:b1\ncompared: topology default\ndiffers: 1 of 4 nodes are not in Slurm as in the plan\n")
	write("nodes", files["nodes"])
	write("shown", strings.SplitAfter(files["shown"], "\n")[0])
	check(1, "n[3-4]: SlurmDiffers: Slurm has not loaded the file that has it in default:b2\ncompared: topology default\ndiffers: 2 of 4 nodes are not in Slurm as in the plan\n")
	write("shown", strings.Replace(files["shown"], "BlockName=b1", "BlockName=r1", 1))
	check(1, "the same groups under other names: r1 = b1\ncompared: topology default\ndiffers: Slurm has all 4 nodes in the same groups as the plan, but the groups have other names\n")
	write("scontrol", "#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
	check(2, "quoin: ask Slurm: "+program+" --all --json show nodes: exit status 1: Unable to contact slurm controller; --topology takes the output of scontrol show topology instead\n")
	if code, _, errs := quoin(t, "", "check", filepath.Join(dir, "topology.conf")); code != 2 || !strings.HasPrefix(errs, "quoin: the publication does not say how Slurm is asked: set publicationDefaults.slurm.url") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
