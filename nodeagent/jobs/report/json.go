package report

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// Report is a run as JSON has it.
type Report struct {
	JobID       string         `json:"jobID"`
	ArrayJobID  string         `json:"arrayJobID,omitempty"`
	ArrayTaskID string         `json:"arrayTaskID,omitempty"`
	JobName     string         `json:"jobName,omitempty"`
	User        string         `json:"user,omitempty"`
	Account     string         `json:"account,omitempty"`
	QOS         string         `json:"qos,omitempty"`
	Partition   string         `json:"partition,omitempty"`
	Cluster     string         `json:"cluster,omitempty"`
	Running     bool           `json:"running"`
	Start       *time.Time     `json:"start,omitempty"`
	End         *time.Time     `json:"end,omitempty"`
	Elapsed     float64        `json:"elapsedSeconds"`
	NumNodes    int            `json:"numNodes"`
	Cliques     []string       `json:"cliques,omitempty"`
	Nodes       []reportedNode `json:"nodes"`
	Totals      Totals         `json:"totals"`
}

type reportedNode struct {
	Node     string             `json:"node"`
	Running  bool               `json:"running"`
	ExitCode string             `json:"exitCode,omitempty"`
	Warnings []string           `json:"warnings,omitempty"`
	Devices  []rundir.DeviceUse `json:"devices"`
}

// WriteJSON writes runs as JSON.
func WriteJSON(w io.Writer, runs []Run, now time.Time) error {
	out := struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Runs       []Report `json:"runs"`
	}{topology.APIVersion, "JobReports", []Report{}}
	for i := range runs {
		out.Runs = append(out.Runs, runs[i].report(now))
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}

func (r *Run) report(now time.Time) Report {
	j := &r.job
	array, task, _ := strings.Cut(r.array, "_")
	out := Report{JobID: j.JobID, ArrayJobID: array, ArrayTaskID: task, JobName: r.jobName, User: j.User, Account: j.Account, QOS: j.QOS,
		Partition: j.Partition, Cluster: j.Cluster, Running: !r.Ended(), Start: known(j.Started()), End: known(r.ended()),
		Elapsed: r.elapsed(now).Seconds(), NumNodes: r.numNodes(), Cliques: r.cliques(), Nodes: []reportedNode{}, Totals: r.totals()}
	for i := range r.nodes {
		n := &r.nodes[i]
		out.Nodes = append(out.Nodes, reportedNode{n.record.Node, n.ended == 0, n.exit, n.record.Warnings, append([]rundir.DeviceUse{}, n.devices()...)})
	}
	return out
}

// known returns a time in UTC, nil if it is not known.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
