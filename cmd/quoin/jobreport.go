package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// jobReport is a run as JSON.
type jobReport struct {
	JobID       string          `json:"jobID"`
	ArrayJobID  string          `json:"arrayJobID,omitempty"`
	ArrayTaskID string          `json:"arrayTaskID,omitempty"`
	JobName     string          `json:"jobName,omitempty"`
	User        string          `json:"user,omitempty"`
	Account     string          `json:"account,omitempty"`
	Partition   string          `json:"partition,omitempty"`
	Cluster     string          `json:"cluster,omitempty"`
	Running     bool            `json:"running"`
	Start       *time.Time      `json:"start,omitempty"`
	End         *time.Time      `json:"end,omitempty"`
	Elapsed     float64         `json:"elapsedSeconds"`
	NumNodes    int             `json:"numNodes"`
	Cliques     []string        `json:"cliques,omitempty"`
	Nodes       []jobReportNode `json:"nodes"`
	Totals      jobTotals       `json:"totals"`
}

type jobReportNode struct {
	Node     string             `json:"node"`
	Running  bool               `json:"running"`
	ExitCode string             `json:"exitCode,omitempty"`
	Devices  []rundir.DeviceUse `json:"devices"`
}

func printJobsJSON(w io.Writer, o *jobOptions, runs []jobRun) error {
	out := struct {
		APIVersion string      `json:"apiVersion"`
		Kind       string      `json:"kind"`
		Runs       []jobReport `json:"runs"`
	}{topology.APIVersion, "JobReports", []jobReport{}}
	for i := range runs {
		out.Runs = append(out.Runs, runs[i].report(o))
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}

func (r *jobRun) report(o *jobOptions) jobReport {
	out := jobReport{JobID: r.first().JobID, Running: r.ended().IsZero(), Elapsed: r.elapsed(o.now()).Seconds(), NumNodes: r.numNodes(), Totals: r.totals(),
		ArrayJobID:  r.says(func(rec *rundir.Record) string { return rec.ArrayJobID }),
		ArrayTaskID: r.says(func(rec *rundir.Record) string { return rec.ArrayTaskID }),
		JobName:     r.says(func(rec *rundir.Record) string { return rec.JobName }),
		User:        r.says(func(rec *rundir.Record) string { return rec.User }),
		Account:     r.says(func(rec *rundir.Record) string { return rec.Account }),
		Partition:   r.says(func(rec *rundir.Record) string { return rec.Partition }),
		Cluster:     r.first().Cluster,
	}
	out.Cliques = r.cliques()
	if start := r.start(); !start.IsZero() {
		start = start.UTC()
		out.Start = &start
	}
	if end := r.ended(); !end.IsZero() {
		end = end.UTC()
		out.End = &end
	}
	for i := range r.nodes {
		n := &r.nodes[i]
		devices := n.devices()
		if devices == nil {
			devices = []rundir.DeviceUse{}
		}
		out.Nodes = append(out.Nodes, jobReportNode{n.record.Node, n.ended == 0, n.exit, devices})
	}
	return out
}
