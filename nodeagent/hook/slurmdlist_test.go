package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
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
	const full, part, other = "Name=gpu File=/dev/nvidia[0-3]\n", "Name=gpu File=/dev/nvidia[1-2]\n", "Name=gpu File=/dev/nvidia[2-3]\n"
	const typed = "Name=gpu Type=a File=/dev/nvidia[1-2]\nName=gpu Type=b File=/dev/nvidia3\n"
	later, earlier := startAt(time.Now().Add(time.Hour)), startAt(time.Now().Add(-time.Hour))
	if earlier >= later || earlier > 1<<62 { // the machine is up for less than an hour
		earlier = 1
	}
	type step struct {
		gres, conf string // what the files are before the job; "" leaves gres.conf as it is, "-" removes it
		start      uint64
		aged       bool   // gres.conf keeps the time of last year
		want       string // the exporter's id of place 0
		said       string
	}
	for name, tt := range map[string]struct {
		folder string
		env    []string
		steps  []step
	}{
		"older than slurmd": {steps: []step{{gres: part, start: later, want: "1"}, {gres: full, start: later, want: "0"}}},
		"slurmd's start is not known": {steps: []step{
			{gres: part, said: "may be younger than slurmd, whose start is not known, and differs from all GPUs of the machine"}, {gres: full, want: "0"}}},
		"younger":               {steps: []step{{gres: part, start: earlier, said: "is younger than slurmd and differs from all GPUs"}, {gres: full, start: earlier, want: "0"}}},
		"moved here":            {steps: []step{{gres: part, start: earlier, aged: true, said: "is younger than slurmd"}}},
		"younger, as it was":    {steps: []step{{gres: part, start: later, want: "1"}, {gres: part + "# x\n", start: later, want: "1"}}},
		"another slurmd":        {steps: []step{{gres: part, start: later, want: "1"}, {start: earlier, said: "is younger than slurmd and differs from all GPUs"}}},
		"configless":            {folder: configless, steps: []step{{gres: part, start: earlier, want: "1"}, {gres: other, want: "2"}}},
		"removed":               {steps: []step{{gres: "-", start: later, said: "gres.conf: no such file"}}},
		"a missing include":     {steps: []step{{gres: "Include more.conf\n" + part, start: later, said: "more.conf is not there"}}},
		"broken":                {steps: []step{{gres: "Name=gpu File\n", start: later, said: "is no Key=Value"}}},
		"a place too many":      {steps: []step{{gres: "Name=gpu File=/dev/nvidia3\n", start: later, want: "3"}, {gres: "Name=nic Count=1\n", start: later, said: "no line gives the node a device file"}}},
		"types without Gres=":   {steps: []step{{gres: typed, start: later, said: "several Types, whose order is that of Gres= in slurm.conf: "}}},
		"types":                 {steps: []step{{gres: typed, conf: "NodeName=n1 Gres=gpu:b:1,gpu:a:2\n", start: later, want: "3"}}},
		"types, slurm.conf new": {steps: []step{{gres: typed, conf: "NodeName=n1 Gres=gpu:b:1,gpu:a:2\n", start: earlier, said: "is younger"}}},
		"detected":              {steps: []step{{gres: "AutoDetect=nvidia\n", start: later, want: "0"}}},
		"no SLURM_CONF":         {env: []string{"SLURM_CONF="}, steps: []step{{gres: full, start: later, said: "SLURM_CONF is not set"}}},
		"UUIDs":                 {env: []string{"CUDA_VISIBLE_DEVICES=GPU-2"}, steps: []step{{gres: "-", want: "2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.inventory("0", "1", "2", "3")
			folder := tt.folder
			if folder == "" {
				folder = "slurm"
			}
			conf := confOf(t, folder, "")
			for _, s := range tt.steps {
				path := filepath.Join(filepath.Dir(conf), "gres.conf")
				var err error
				switch {
				case s.gres == "-":
					err = os.Remove(path)
				case s.gres != "":
					err = os.WriteFile(path, []byte(s.gres), 0o600)
				}
				if err == nil && s.conf != "" {
					err = os.WriteFile(conf, []byte(s.conf), 0o600)
				}
				if err == nil && s.aged {
					err = os.Chtimes(path, time.Time{}, time.Now().AddDate(-1, 0, 0))
				}
				if err != nil {
					t.Fatal(err)
				}
				env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "SLURM_CONF": conf, "SLURMD_NODENAME": "n1"}
				for _, w := range tt.env {
					key, value, _ := strings.Cut(w, "=")
					env[key] = value
				}
				var said strings.Builder
				Run(t.Context(), Options{Verb: "prolog", RunDir: rundir.Dir(p.run), MappingDir: p.mapping, BootID: testBoot, SlurmdStart: func() uint64 { return s.start },
					Env: func(key string) string { return env[key] }, Stderr: &said})
				labels := map[string]string{}
				for id, text := range mapped(t, p.mapping) {
					if text == "7\n" {
						labels[id] = text
					}
				}
				if labels[s.want] == "" && s.want != "" || len(labels) != len(s.want) || !strings.Contains(said.String(), s.said) || (said.String() == "") != (s.said == "") {
					t.Errorf("after %q: labels %v, want of %q; said %q, want %q", s.gres, labels, s.want, said.String(), s.said)
				}
				record, err := rundir.Dir(p.run).ReadRecord("7")
				if err != nil || record == nil || record.Unresolved != (s.want == "") {
					t.Errorf("record %+v, %v", record, err)
				}
				word := ""
				if s.want == "" {
					word = rundir.CallGresConf
				}
				if calls := strings.Join(takeCalls(t, p.run), ","); calls != "prolog "+word {
					t.Errorf("calls %q", calls)
				}
				p.hook("epilog", "7")
				takeCalls(t, p.run)
			}
		})
	}
}
