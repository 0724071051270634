package slurmctld

import (
	_ "embed"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// jobs has jobs as slurmrestd 26.05.5 writes them, shortened: one that runs, one as v0.0.43
// writes it, a task of an array, one that waits, and one that has ended.
//
//go:embed testdata/jobs.json
var jobs string

//go:embed testdata/partitions.json
var partitions string

var (
	readJobs = []Job{
		{ID: "1", Name: "train", User: "alice", Account: "physics", Partition: "p", Nodes: "d[9,8]", GPUs: []string{"gpu:gb200:4(IDX:0-3)", "gpu:gb200:1(IDX:0)"},
			HoldsGPUs: true, Start: time.Unix(1795555650, 0), Segment: 2, Spread: true},
		{ID: "2", Nodes: "d1"},
		{ID: "4", Array: "3_0", QOS: "high", Cluster: "rig", Nodes: "d2", HoldsGPUs: true},
	}
	readPartitions = map[string]string{"p": "", "tree": "fabric"}
)

func TestReadJobs(t *testing.T) {
	got, err := ReadJobs(strings.NewReader(jobs))
	if diff := cmp.Diff(readJobs, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	named, err := ReadPartitions(strings.NewReader(partitions))
	if diff := cmp.Diff(readPartitions, named); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]string{
		`{"jobs":[{"job_id":"x"}]}`: "read job 1:",
		`{"errors":[]}`:             "no list of jobs",
		`{"jobs":[{"job_state":["RUNNING"],"nodes":"` + strings.Repeat("n", maxList+1) + `"}]}`: "read job 1: job 0: the host list is too long",
	} {
		if _, err := ReadJobs(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: error %v, want one with %q", text, err, want)
		}
	}
}

// TestHoldsGPUs reads the words in which Slurm 26.05.5 names the GPUs of a job, one at a time.
func TestHoldsGPUs(t *testing.T) {
	for text, want := range map[string]bool{
		`"gres_detail":["gpu:gb200:4(IDX:0-3)"]`:                   true,
		`"gres_detail":["","gpu:1(IDX:0)"]`:                        true,
		`"tres_alloc_str":"cpu=4,mem=1000M,node=1,gres/gpu=4"`:     true,
		`"tres_per_job":"gres/gpu:2"`:                              true,
		`"tres_per_node":"gres/gpu:gb200:1"`:                       true,
		`"tres_per_socket":"gres/gpu:1"`:                           true,
		`"tres_per_task":"gres/gpu=1"`:                             true,
		`"tres_alloc_str":"cpu=4,mem=1000M,node=1","name":"gpu"`:   false,
		`"gres_detail":[]`:                                         false,
		`"tres_per_node":"gres/nic:1","partition":"gpu","qos":"g"`: false,
	} {
		jobs, err := ReadJobs(strings.NewReader(`{"jobs":[{"job_id":1,"job_state":["RUNNING"],"nodes":"n1",` + text + `}]}`))
		if err != nil || len(jobs) != 1 || jobs[0].HoldsGPUs != want {
			t.Errorf("%s: %+v, %v, want %t", text, jobs, err, want)
		}
	}
}

func TestJobIsOf(t *testing.T) {
	j := &Job{ID: "4", Array: "3_0"}
	for id, want := range map[string]bool{"4": true, "3": true, "3_0": true, "3_1": false, "": false, "0": false} {
		if j.IsOf(id) != want {
			t.Errorf("%q: %t, want %t", id, !want, want)
		}
	}
	if (&Job{ID: "4"}).IsOf("") {
		t.Error("no id names a job")
	}
}

func FuzzReadJobs(f *testing.F) {
	for _, text := range []string{jobs, partitions, `{"jobs":[]}`, `{"jobs":[{"job_state":["RUNNING"],"nodes":"x","gres_detail":null,"shared":{"a":[1]},"segment_size":-3,"start_time":{"number":-1}}]}`,
		"{\"jobs\":[{\"job_state\":[\"RUNNING\"],\"nodes\":\"x\",\"name\":\"\xff\",\"qos\":\"" + strings.Repeat("\xff", 400) + "\"}]}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := ReadJobs(strings.NewReader(text))
		if jobs == nil && err == nil {
			t.Fatal("neither jobs nor an error")
		}
		for _, j := range jobs {
			if j.Nodes == "" || len(j.Nodes) > maxList || len(j.Name) > 256 || j.Segment < 0 || !utf8.ValidString(j.Name+j.QOS+j.Cluster) || !j.Start.IsZero() && j.Start.Unix() <= 0 {
				t.Fatalf("%+v", j)
			}
		}
	})
}
