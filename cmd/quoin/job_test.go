package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/jobs/report"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/golden"
	"github.com/quoin-hpc/quoin/topology"
)

// jobStart is when the jobs of these tests began.
var jobStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// jobDevice is a device and what each sample of it says.
type jobDevice struct {
	entry rundir.Entry
	use   topology.DeviceUse
}

// h100 is GPU i of a node that does what is said of it.
func h100(node string, i, processes int, share float64) jobDevice {
	uuid := fmt.Sprintf("GPU-%s%06d-0000-0000-0000-%012d", node, i, i)
	return jobDevice{rundir.Entry{UUID: uuid, ExporterID: fmt.Sprint(i), Product: "NVIDIA H100 80GB HBM3"}, topology.DeviceUse{UUID: uuid, Processes: &processes, Utilization: &share,
		SMActivity: new(share / 2), MemoryUsed: new(uint64(share * 70 * (1 << 30))), MemoryTotal: new(uint64(80 << 30)), Power: new(70 + 600*share)}}
}

// migInstance is an instance of GPU 0.
func migInstance(gi, processes int) jobDevice {
	uuid := fmt.Sprintf("MIG-%08d-0000-0000-0000-000000000000", gi)
	return jobDevice{rundir.Entry{UUID: uuid, ExporterID: fmt.Sprintf("0.%d", gi), Product: "NVIDIA A100-SXM4-40GB 1g.5gb"}, topology.DeviceUse{UUID: uuid, Processes: &processes,
		MemoryUsed: new(uint64(processes) << 30), MemoryTotal: new(uint64(5 << 30))}}
}

// jobOn is a record of a job on a node.
func jobOn(job, node string) rundir.Record {
	return rundir.Record{JobID: job, Run: rundir.Run{StartTime: fmt.Sprint(jobStart.Unix())}, User: "ada", Account: "physics", Partition: "gpu", Cluster: "hpc", Node: node, NumNodes: "1", NodeList: node}
}

// usedFor is the use of devices by a job that was sampled each ten seconds.
func usedFor(r rundir.Record, d time.Duration, devices ...jobDevice) *rundir.Use {
	if len(devices) == 0 {
		return nil
	}
	u := rundir.NewUse(r.JobID, r.Run, jobStart)
	var entries []rundir.Entry
	var s topology.Sample
	for _, dev := range devices {
		entries, s.Devices = append(entries, dev.entry), append(s.Devices, dev.use)
	}
	u.Hold(entries, func(string) []uint32 { return nil })
	for at := 10 * time.Second; at <= d; at += 10 * time.Second {
		for i := range s.Devices {
			if p := s.Devices[i].Power; p != nil {
				s.Devices[i].Energy = new(1e6 + *p*at.Seconds())
			}
		}
		u.Add(s, jobStart.Add(at), 10*time.Second)
	}
	return u
}

// writeRunning writes a job that runs, writeEnded one that has ended.
func writeRunning(t *testing.T, runDir string, r rundir.Record, u *rundir.Use) {
	t.Helper()
	if err := rundir.Dir(runDir).WriteRecord(r.JobID, r); err != nil {
		t.Fatal(err)
	}
	if u == nil {
		return
	}
	if err := rundir.Dir(runDir).Uses().Write(r.JobID, u); err != nil {
		t.Fatal(err)
	}
}

func writeEnded(t *testing.T, dir string, r rundir.Record, u *rundir.Use, after time.Duration, exit string) {
	t.Helper()
	start := jobStart
	if seconds, err := fmt.Sscan(r.StartTime, new(int64)); err != nil || seconds != 1 {
		t.Fatal(err)
	}
	if err := rundir.CopySummary(dir, rundir.Summary{Key: r.JobID, Record: r, Use: u, Ended: start.Add(after).Unix(), ExitCode: exit}); err != nil {
		t.Fatal(err)
	}
}

// jobsIn returns a source of jobs: a run directory, and directories with summaries.
func jobsIn(runDir string, summaryDirs ...string) report.Source {
	return report.Source{RunDir: rundir.Dir(runDir), SummaryDirs: summaryDirs}
}

// jobOutput runs quoin job with options, an hour and a half after the jobs began.
func jobOutput(t *testing.T, o jobOptions, id string) (stdout, stderr string, err error) {
	t.Helper()
	var out, said bytes.Buffer
	o.now, o.zone, o.stderr, o.RunDirGiven, o.Skip = func() time.Time { return jobStart.Add(90 * time.Minute) }, time.UTC, &said, true, o.skip
	if o.output == "" {
		o.output = jobTable
	}
	if id == "" {
		err = listJobs(&out, &o)
	} else {
		err = showJob(t.Context(), &out, &o, id)
	}
	return out.String(), said.String(), err
}

// jobSite is a run directory and a shared one, with jobs of all kinds.
func jobSite(t *testing.T) (runDir, shared string) {
	t.Helper()
	runDir, shared = t.TempDir(), t.TempDir()
	running := jobOn("100", "n1")
	writeRunning(t, runDir, running, usedFor(running, time.Hour, h100("n1", 0, 1, 0.9), h100("n1", 1, 1, 0.5), h100("n1", 2, 0, 0)))
	fresh := jobOn("101", "n1")
	fresh.GPUs, fresh.UUIDs = []string{"3"}, []string{"GPU-00000003-0000-0000-0000-000000000000"}
	writeRunning(t, runDir, fresh, nil)

	local := rundir.Dir(runDir).SummaryDir()
	idle := jobOn("90", "n1")
	idle.User = "ada\x1b[2J"
	writeEnded(t, local, idle, usedFor(idle, 10*time.Minute, h100("n1", 0, 0, 0)), 10*time.Minute, "0:15")
	mig := jobOn("91", "n1")
	writeEnded(t, local, mig, usedFor(mig, 26*time.Hour, migInstance(7, 2), migInstance(8, 0)), 26*time.Hour, "0:0")

	for i, node := range []string{"n10", "n2"} {
		r := jobOn("200", node)
		r.NumNodes, r.NodeList = "2", "n[2,10]"
		u := usedFor(r, time.Hour, h100(node, 0, 1, 1), h100(node, 1, 1, 0.8))
		u.Clique = fmt.Sprintf("8a61c302-0000-4000-8000-000000000001.%d", i)
		writeEnded(t, shared, r, u, time.Hour+time.Duration(i)*time.Second, "0:0")
	}
	for restart, start := range []time.Time{jobStart.Add(-time.Hour), jobStart} {
		r := jobOn("300", "n3")
		r.StartTime = fmt.Sprint(start.Unix())
		writeEnded(t, shared, r, usedFor(r, time.Minute, h100("n3", restart, 1, 0.25)), time.Duration(restart)*time.Minute, "0:0")
	}
	for task := range 2 {
		r := jobOn(fmt.Sprint(400+task), "n3")
		writeEnded(t, shared, r, usedFor(r, time.Minute, h100("n3", task, 1, 0.25)), time.Minute, "")
	}
	full := jobOn("500", "gpu-001")
	var eight []jobDevice
	for i := range 8 {
		eight = append(eight, h100("gpu-001", i, 1, 1))
	}
	writeEnded(t, shared, full, usedFor(full, 23*time.Hour, eight...), 23*time.Hour, "0:0")
	hidden := jobOn("501", "n3")
	u := usedFor(hidden, 10*time.Second, h100("n3", 0, 0, 0)) // the program comes after that
	for at := 20; at <= 600; at += 10 {
		u.Add(topology.Sample{Devices: []topology.DeviceUse{{UUID: u.Devices[0].UUID, Utilization: new(0.0)}}}, jobStart.Add(time.Duration(at)*time.Second), 10*time.Second)
	}
	writeEnded(t, shared, hidden, u, 10*time.Minute, "0:0")
	return runDir, shared
}

func TestJobTables(t *testing.T) {
	runDir, shared := jobSite(t)
	tests := []struct {
		name, id string
		o        jobOptions
	}{
		{"running", "100", jobOptions{Source: jobsIn(runDir)}},
		{"wide", "100", jobOptions{Source: jobsIn(runDir), output: jobWide}},
		{"without-samples", "101", jobOptions{Source: jobsIn(runDir)}},
		{"idle", "90", jobOptions{Source: jobsIn(runDir)}},
		{"mig", "91", jobOptions{Source: jobsIn(runDir)}},
		{"straddling", "200", jobOptions{Source: jobsIn(runDir, shared)}},
		{"requeued", "300", jobOptions{Source: jobsIn(runDir, shared)}},
		{"requeued-all", "300", jobOptions{Source: jobsIn(runDir, shared), all: true}},
		{"full-node", "500", jobOptions{Source: jobsIn(runDir, shared)}},
		{"hidden", "501", jobOptions{Source: jobsIn(runDir, shared)}},
		{"list", "", jobOptions{Source: jobsIn(runDir)}},
		{"list-all", "", jobOptions{Source: jobsIn(runDir, shared), all: true}},
		{"list-wide", "", jobOptions{Source: jobsIn(runDir), output: jobWide}},
		{"json", "200", jobOptions{Source: jobsIn(runDir, shared), output: outputJSON}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, said, err := jobOutput(t, tt.o, tt.id)
			if err != nil || said != "" {
				t.Fatalf("%v, said %q", err, said)
			}
			golden.Check(t, filepath.Join("testdata", "job-"+tt.name+".txt"), got)
			for line := range strings.Lines(got) {
				if strings.TrimRight(line, " \n")+"\n" != line {
					t.Errorf("line %q ends with blanks", line)
				}
				if len(line) > 81 && tt.o.output == "" && !strings.HasPrefix(line, "Cliques") {
					t.Errorf("line %q does not fit into 80 columns", line)
				}
			}
		})
	}
}
