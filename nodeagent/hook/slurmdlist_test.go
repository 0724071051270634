package hook

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
)

// startAt returns the clock ticks since the boot of a time.
func startAt(at time.Time) uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // it cannot fail on Linux
	return uint64((time.Duration(now.Nano()) - time.Since(at)) / (time.Second / 100))
}

// TestSlurmdList has Prologs find the devices of their places whatever became of gres.conf since
// slurmd began. Without certainty a job has no label, and the hook says why.
func TestSlurmdList(t *testing.T) {
	const full, part = "Name=gpu File=/dev/nvidia[0-3]\n", "Name=gpu File=/dev/nvidia[1-2]\n"
	const typed = "Name=gpu Type=a File=/dev/nvidia[1-2]\nName=gpu Type=b File=/dev/nvidia3\n"
	const all, three, types = "NodeName=n1 Gres=gpu:4\n", "NodeName=n1 Gres=gpu:3\n", "NodeName=n1 Gres=gpu:b:1,gpu:a:2\n"
	const younger, unknown = "is younger than slurmd, which may have loaded another list: restart slurmd", "may be younger than slurmd, whose start is not known: "
	const day = 24 * time.Hour
	now := time.Now()
	started := startAt(now.Add(day))
	for name, tt := range map[string]struct {
		folder     string
		env        string
		gres, conf string        // the files; gres.conf is not there if empty
		gresAge    time.Duration // since slurmd began a day from now; negative: the file is younger
		confAge    time.Duration
		start      uint64 // 0: a day from now
		unknown    bool   // slurmd's start is not known
		want       string // the exporter's id of place 0
		said       string
	}{
		"older than slurmd":                {gres: part, want: "1"},
		"start is not known":               {gres: part, conf: all, unknown: true, said: "gres.conf " + unknown},
		"start is not known, all GPUs":     {gres: full, conf: all, unknown: true, want: "0"},
		"start is not known, not all used": {gres: full, conf: three, unknown: true, said: "gres.conf " + unknown},
		"younger":                          {gres: part, conf: all, gresAge: -day, said: "gres.conf " + younger},
		"younger, all GPUs":                {gres: full, conf: all, gresAge: -day, want: "0"},
		"younger, another order":           {gres: "Name=gpu File=/dev/nvidia[0,2-3,1]\n", conf: all, gresAge: -day, said: younger},
		"younger, not all used":            {gres: full, conf: three, gresAge: -day, said: younger},
		"both younger":                     {gres: full, conf: all, gresAge: -day, confAge: -day, said: younger},
		"younger, and no line of the node": {gres: full, conf: "NodeName=n2 Gres=gpu:4\n", gresAge: -day, said: younger},
		"moved here":                       {gres: part, gresAge: 365 * day, start: 1, said: younger},
		"configless":                       {folder: configless, gres: part, gresAge: -day, want: "1"},
		"not there":                        {said: "gres.conf: no such file"},
		"a missing include":                {gres: "Include more.conf\n" + part, said: "more.conf is not there"},
		"broken":                           {gres: "Name=gpu File\n", said: "is no Key=Value"},
		"no device":                        {gres: "Name=nic Count=1\n", said: "no line gives the node a device file"},
		"a place too many":                 {env: "SLURM_JOB_GPUS=2", gres: part, said: "SLURM_JOB_GPUS has place 2, and the node's lines give 2 devices"},
		"types without Gres=":              {gres: typed, said: "several Types, whose order is that of Gres= in slurm.conf: "},
		"types":                            {gres: typed, conf: types, want: "3"},
		"types, slurm.conf younger":        {gres: typed, conf: types, confAge: -day, said: "slurm.conf " + younger},
		"detected":                         {gres: "AutoDetect=nvidia\n", want: "0"},
		"no SLURM_CONF":                    {env: "SLURM_CONF=", gres: full, said: "SLURM_CONF is not set"},
		"UUIDs":                            {env: "CUDA_VISIBLE_DEVICES=GPU-2", want: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.inventory("0", "1", "2", "3")
			conf := confOf(t, cmp.Or(tt.folder, "slurm"), tt.gres)
			gresConf := filepath.Join(filepath.Dir(conf), "gres.conf")
			err := errors.Join(os.WriteFile(conf, []byte(tt.conf), 0o600), os.Chtimes(conf, time.Time{}, now.Add(day-cmp.Or(tt.confAge, day))))
			if tt.gres == "" {
				err = errors.Join(err, os.Remove(gresConf))
			} else {
				err = errors.Join(err, os.Chtimes(gresConf, time.Time{}, now.Add(day-cmp.Or(tt.gresAge, day))))
			}
			if err != nil {
				t.Fatal(err)
			}
			env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "SLURM_CONF": conf, "SLURMD_NODENAME": "n1"}
			if key, value, set := strings.Cut(tt.env, "="); set {
				env[key] = value
			}
			start := cmp.Or(tt.start, started)
			if tt.unknown {
				start = 0
			}
			var said strings.Builder
			Run(t.Context(), Options{Verb: "prolog", RunDir: rundir.Dir(p.run), MappingDir: p.mapping, BootID: testBoot, SlurmdStart: func() uint64 { return start },
				Env: func(key string) string { return env[key] }, Stderr: &said})
			want, word := map[string]string{}, rundir.CallGresConf
			if tt.want != "" {
				want, word = map[string]string{tt.want: "7\n"}, ""
			}
			got := mapped(t, p.mapping)
			maps.DeleteFunc(got, func(_, jobs string) bool { return jobs != "7\n" })
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if !strings.Contains(said.String(), tt.said) || (said.String() == "") != (tt.said == "") {
				t.Errorf("said %q, want %q", said.String(), tt.said)
			}
			record, err := rundir.Dir(p.run).ReadRecord("7")
			if err != nil || record == nil || record.Unresolved != (tt.want == "") || tt.want == "" && record.Devices != nil {
				t.Errorf("record %+v, %v", record, err)
			}
			if calls := strings.Join(takeCalls(t, p.run), ","); calls != "prolog "+word {
				t.Errorf("calls %q", calls)
			}
		})
	}
}

// TestDetectedBy knows the GPUs that slurmd finds only if each way of detection finds them in the same
// order.
func TestDetectedBy(t *testing.T) {
	one := 1
	change := func(change func(inv *rundir.Inventory)) *rundir.Inventory {
		inv := &rundir.Inventory{}
		for i := range 3 {
			inv.Entries = append(inv.Entries, rundir.Entry{Minor: i, Index: i, Product: "NVIDIA H200"})
		}
		change(inv)
		return inv
	}
	for name, tt := range map[string]struct {
		inv  *rundir.Inventory
		want []gres.Device // nil: they are not known
	}{
		"alike":              {change(func(*rundir.Inventory) {}), []gres.Device{"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2"}},
		"a gap":              {change(func(inv *rundir.Inventory) { inv.Entries[2].Minor = 11 }), []gres.Device{"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia11"}},
		"no inventory":       {nil, nil},
		"one differs":        {change(func(inv *rundir.Inventory) { inv.Entries[2].Product = "NVIDIA A100" }), nil},
		"one is lost":        {change(func(inv *rundir.Inventory) { inv.Entries[0].Lost = true }), nil},
		"one is not read":    {change(func(inv *rundir.Inventory) { inv.Unordered = true }), nil},
		"one has MIG":        {change(func(inv *rundir.Inventory) { inv.Entries[1].GPUInstanceID = &one }), nil},
		"MIG, no instance":   {change(func(inv *rundir.Inventory) { inv.EmptyMIG = true }), nil},
		"NVML's order":       {change(func(inv *rundir.Inventory) { inv.Entries[0].Index = 2 }), nil},
		"order of the files": {change(func(inv *rundir.Inventory) { inv.Entries[1].Minor = 3 }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := detectedBy(tt.inv)
			if diff := gocmp.Diff(tt.want, got); diff != "" || (err == nil) != (tt.want != nil) {
				t.Errorf("error %v, devices (-want +got):\n%s", err, diff)
			}
		})
	}
}
