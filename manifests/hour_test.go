package manifests_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/test/rig/exporter"
	"github.com/quoin-hpc/quoin/test/rig/hour"
)

// TestRealHour evaluates what reads the scripted hour, with all rules, in promtool: the
// dashboards, the annotations and the alerts. They share a run, for its time goes into the
// rules of all minutes.
func TestRealHour(t *testing.T) {
	t.Parallel()
	given := append(scriptedHour(t), series{labels("ALERTS", with(othersAlert, "alertstate", "firing")), "1x60"})
	exprs := slices.Concat(dashboardTests(t), annotationTests(t), alertTests())
	if out, err := runUnits(t, unitFile{allRules(t), "1m", []unitTest{{Interval: "1m", Series: given, Exprs: exprs}}}); err != nil {
		t.Error(out)
	}
}

// text is a target's exposition at a minute.
type text struct {
	labels string // of the target
	body   string
}

// player plays the script; each node's exporter reads a job mapping directory that
// the hook's own code keeps.
type player struct {
	mappings []dcgm.Mapping
	counters map[bool]string // by since49
}

func newPlayer(t *testing.T) *player {
	t.Helper()
	h := &player{counters: map[bool]string{}}
	for since49, name := range map[bool]string{false: "dcgm/counters-before-4.9.csv", true: "dcgm/counters-4.9.csv"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		h.counters[since49] = string(data)
	}
	for range hour.Nodes {
		h.mappings = append(h.mappings, dcgm.Mapping{Dir: filepath.Join(t.TempDir(), "job-mapping")})
		if err := os.Mkdir(h.mappings[len(h.mappings)-1].Dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// at starts and ends the minute's jobs and returns what all targets print then.
func (h *player) at(t *testing.T, minute int) []text {
	t.Helper()
	for i := range hour.Jobs {
		j := &hour.Jobs[i]
		for _, p := range j.Holds {
			id := []string{hour.Nodes[p.Node].Devices[p.Device].ExporterID()}
			var err error
			switch minute {
			case j.From:
				err = h.mappings[p.Node].Set(j.ID, id)
			case j.To:
				err = h.mappings[p.Node].Clear(j.ID, id)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	texts := []text{{`instance="slurm:6817",job="slurmctld"`, hour.SlurmText(minute)}, {`instance="pub-0",job="quoin-publisher"`, hour.PublisherText(1, minute)}, {`instance="pub-1",job="quoin-publisher"`, hour.PublisherText(0, minute)}}
	for i := range hour.Nodes {
		agent := fmt.Sprintf(`instance="10.0.0.%d:9835",job="quoin-agent"`, i+1)
		if hour.Nodes[i].Label {
			agent += fmt.Sprintf(`,node="%s"`, hour.Nodes[i].Name)
		}
		texts = append(texts, text{fmt.Sprintf(`instance="10.0.0.%d:9400",job="dcgm-exporter"`, i+1), h.exporterText(t, i, minute)},
			text{agent, hour.AgentText(i, minute)}, text{fmt.Sprintf(`instance="10.0.0.%d:9100",job="node-exporter"`, i+1), hour.Nodes[i].HostText(minute)})
	}
	return texts
}

func (h *player) exporterText(t *testing.T, n, minute int) string {
	t.Helper()
	if hour.Nodes[n].Silent(minute) {
		return ""
	}
	x := exporter.Exporter{Since49: hour.Nodes[n].Since49, OldNamespace: hour.Nodes[n].OldNamespace(minute), Hostname: hour.Nodes[n].Name, Driver: "580.95.05", Mapping: h.mappings[n].Dir, Counters: h.counters[hour.Nodes[n].Since49]}
	var devices []exporter.Device
	for i := range hour.Nodes[n].Devices {
		d := hour.Nodes[n].Devices[i].Device
		d.Use = hour.Nodes[n].Devices[i].At(hour.Place{Node: n, Device: i}, minute)
		devices = append(devices, d)
	}
	var out bytes.Buffer
	if err := x.Write(&out, devices); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
