package manifests_test

import (
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/quoin-hpc/quoin/test/rig/hour"
)

var blockExpectations = map[string]func(moment) []sample{
	"quoin-blocks/Jobs over several blocks/A":            one(func(moment) float64 { return 1 }),
	"quoin-blocks/of these, would fit into one/A":        one(func(moment) float64 { return 1 }),
	"quoin-blocks/Jobs over several NVLink cliques/A":    one(func(moment) float64 { return 1 }),
	"quoin-blocks/Blocks/A":                              one(func(moment) float64 { return 2 }),
	"quoin-blocks/Jobs over several blocks or cliques/A": straddling(2),
	"quoin-blocks/Jobs over several blocks or cliques/B": straddling(2),
	"quoin-blocks/Jobs over several blocks or cliques/C": straddling(2),
	"quoin-blocks/Devices of each job in each block/A": func(m moment) []sample {
		g := groups{by: []string{"cluster", "job_id", "block"}}
		for _, h := range m.holds() {
			if hour.Nodes[h.Node].Block != "" {
				g.add(h, 1)
			}
		}
		return g.rows()
	},
	"quoin-blocks/Held devices by block/A":    perBlock(6, func(held, _ int) float64 { return float64(held) }),
	"quoin-blocks/Free devices by block/A":    perBlock(4, func(held, all int) float64 { return float64(all - held) }), // without those of n4, which is unavailable
	"quoin-blocks/Devices by NVLink clique/A": fixed(sample{`quoin:clique_devices:count{clique="` + hour.CliqueA + `"}`, 4}, sample{`quoin:clique_devices:count{clique="` + hour.CliqueB + `"}`, 6}),
	"quoin-blocks/Utilisation by block/A": func(m moment) []sample {
		b1, b2 := m.used()
		return []sample{{`{block="b1"}`, b1 / 4}, {`{block="b2"}`, b2 / 6}}
	},
	"quoin-blocks/NVLink by clique/A": func(m moment) []sample {
		b1, b2 := m.used()
		return []sample{{`{clique="` + hour.CliqueA + `"}`, b1 * 1e9}, {`{clique="` + hour.CliqueB + `"}`, b2 * 1e9}}
	},
	"quoin-blocks/Nodes by block and clique/A": func(moment) []sample {
		var rows []sample
		for i := range hour.Nodes {
			n := &hour.Nodes[i]
			set := map[string]string{"block": n.Block, "clique": n.Clique, "modelName": n.Devices[0].Model, "node": n.Name, "instance": agentLabels(i, nil)["instance"]}
			rows = append(rows, sample{labels("", set), float64(len(n.Devices))})
		}
		return rows
	},
	"quoin-blocks/Blocks with 18 available nodes/A":            one(func(moment) float64 { return 1 }),
	"quoin-blocks/Blocks with 16 available nodes or more/A":    one(func(moment) float64 { return 2 }),
	"quoin-blocks/Blocks with fewer than 16 available nodes/A": one(func(moment) float64 { return 1 }),
	"quoin-blocks/GPUs that no segment of 16 can use/A":        one(func(moment) float64 { return float64(hour.StrandedGPUs["16"]) }),
	"quoin-blocks/Free segments by size/A":                     bySize(hour.FreeSegments),
	"quoin-blocks/GPUs that no segment can use, by size/A":     bySize(hour.StrandedGPUs),
	"quoin-blocks/Nodes by block and state/A": func(moment) (rows []sample) {
		for block, nodes := range hour.BlockNodes {
			for i, state := range []string{"free", "busy", "unavailable"} {
				rows = append(rows, sample{`{block="` + block + `", state="` + state + `"}`, float64(nodes[i])})
			}
		}
		return rows
	},
	"quoin-blocks/Jobs whose segments are split/A":   one(func(moment) float64 { return 1 }),
	"quoin-blocks/Jobs in more blocks than needed/A": one(func(moment) float64 { return 1 }),
	"quoin-blocks/Segments that are split/A": func(m moment) []sample {
		return m.placed(func(j *hour.PlacedJob) (rows []sample) {
			if j.Split > 0 {
				rows = append(rows, sample{fmt.Sprintf(`quoin:job_split_segments:count{got=%q, job_id=%q, publication="slurm", segment=%q, topology="nvl"}`, j.Got, j.ID, j.Segment), float64(j.Split)})
			}
			return rows
		})
	},
	"quoin-blocks/More blocks or switches than needed/A": func(m moment) []sample {
		return m.placed(func(j *hour.PlacedJob) []sample { return more(j, j.Blocks, j.Leaves) })
	},
	"quoin-blocks/More blocks or switches than needed/B": func(m moment) []sample {
		return m.placed(func(j *hour.PlacedJob) []sample { return more(j, j.Fewest, 1) })
	},
	"quoin-blocks/$cluster": fixed(sample{`{cluster="alpha"}`, 1}),
	"quoin-blocks/$account": func(m moment) []sample { return m.all().values("account") },
	"quoin-blocks/$user":    func(m moment) []sample { return m.all().values("user") },
	"quoin-blocks/$job":     func(m moment) []sample { return m.values("job_id") },
	"quoin-blocks/$block":   values("block", "b1", "b2"),
}

// placed expects rows of the jobs that Slurm tells the publisher of.
func (m moment) placed(of func(*hour.PlacedJob) []sample) (rows []sample) {
	for i := range hour.PlacedJobs {
		if j := &hour.PlacedJobs[i]; m.job == "" || m.job == j.ID {
			rows = append(rows, of(j)...)
		}
	}
	return rows
}

// more expects a row for each kind of unit if a job uses more units than needed.
func more(j *hour.PlacedJob, blocks, leaves int) (rows []sample) {
	row := func(unit, topology string, value int) sample {
		return sample{fmt.Sprintf(`{job_id=%q, publication="slurm", topology=%q, unit=%q}`, j.ID, topology, unit), float64(value)}
	}
	if j.Blocks > j.Fewest {
		rows = append(rows, row("block", "nvl", blocks))
	}
	if j.Leaves > 1 {
		rows = append(rows, row("leaf switch", "fabric", leaves))
	}
	return rows
}

// bySize expects a row for each size of segments.
func bySize(counts map[string]int) func(moment) []sample {
	return func(moment) (rows []sample) {
		for size, count := range counts {
			rows = append(rows, sample{`{size="` + size + `", topology="nvl"}`, float64(count)})
		}
		return rows
	}
}

// straddling expects a row for erin's job, which lies in two blocks.
func straddling(value float64) func(moment) []sample {
	return func(m moment) []sample {
		if m.user != "" {
			return nil
		}
		return []sample{{`{account="chemistry", cluster="alpha", job_id="106", partition="large", user="erin"}`, value}}
	}
}

// used sums the utilisation of the devices in block b1 and in b2.
func (m moment) used() (b1, b2 float64) {
	for p, d := range m.all().devices() {
		switch hour.Nodes[p.Node].Block {
		case "b1":
			b1 += d.utilization()
		case "b2":
			b2 += d.utilization()
		}
	}
	return b1, b2
}

// perBlock expects a row per block of how many devices are held and how many there
// are: four in b1, and b2.
func perBlock(b2 int, value func(held, all int) float64) func(moment) []sample {
	return func(m moment) []sample {
		held := map[string]int{}
		for p := range m.all().devices() {
			held[hour.Nodes[p.Node].Block]++
		}
		return []sample{{`{block="b1"}`, value(held["b1"], 4)}, {`{block="b2"}`, value(held["b2"], b2)}}
	}
}

var fabricExpectations = map[string]func(moment) []sample{
	"quoin-fabric/Agents/A":                   one(func(moment) float64 { return 4 }),
	"quoin-fabric/Probes down/A":              one(func(moment) float64 { return 0 }),
	"quoin-fabric/Stale reports/A":            one(func(moment) float64 { return 0 }),
	"quoin-fabric/GPUs of unhealthy fabric/A": one(func(moment) float64 { return 2 }),
	"quoin-fabric/Hook errors in the time shown/A": one(func(m moment) float64 {
		if m.minute < 40 {
			return 0
		}
		return 2370. / 2340 // one error; Prometheus reckons with the half minute to the end of the range
	}),
	"quoin-fabric/Leading publishers/A":                        one(func(moment) float64 { return 1 }),
	"quoin-fabric/GPUs by fabric state and health/A":           fixed(sample{`{fabric="completed", health="healthy"}`, 8}, sample{`{fabric="completed", health="unhealthy"}`, 2}, sample{`{fabric="notSupported"}`, 1}),
	"quoin-fabric/GPUs that are not healthy in their fabric/A": fixed(sample{`quoin_agent_gpus{fabric="completed", health="unhealthy", instance="10.0.0.4:9835", job="quoin-agent"}`, 2}),
	"quoin-fabric/NVLink fabrics/A":                            fixed(fabricInfo(0), fabricInfo(1), fabricInfo(3)),
	"quoin-fabric/IMEX/A":                                      fixed(imexInfo(0), imexInfo(1), imexInfo(3)),
	"quoin-fabric/Problems of the nodes' reports/A":            fixed(sample{`{instance="10.0.0.4:9835", reason="XidCritical"}`, 1}),
	"quoin-fabric/GPUs with a Xid or a failed row remapping/A": sickGPUs(48, hour.FaultXid),
	"quoin-fabric/GPUs with a Xid or a failed row remapping/B": sickGPUs(1, 1),
	"quoin-fabric/Hook calls/A":                                fixed(sample{`{hook="prolog", result="ok"}`, 4 * rate(1, 5)}, sample{`{hook="prolog", result="error"}`, 0}, sample{`{hook="epilog", result="ok"}`, 0}, sample{`{hook="epilog", result="error"}`, 0}),
	"quoin-fabric/Hook duration/A":                             fixed(sample{`{hook="prolog"}`, quantile(0.5)}),
	"quoin-fabric/Hook duration/B":                             fixed(sample{`{hook="prolog"}`, quantile(0.99)}),
	"quoin-fabric/Hook errors/A":                               fixed(sample{`{hook="prolog", reason="lock"}`, 0}, sample{`{hook="epilog", reason="lock"}`, 0}),
	"quoin-fabric/Job records and mapping files/A": func(m moment) []sample {
		return []sample{{`{state="alive"}`, m.all().records()}, {`{state="unproven"}`, 0}, {`{state="unreadable"}`, 0}}
	},
	"quoin-fabric/Job records and mapping files/B": func(m moment) []sample {
		held := float64(len(m.all().devices()))
		return []sample{{`{state="held"}`, held}, {`{state="empty"}`, 3 * ended(m)}, {`{state="foreign"}`, 0}}
	},
	"quoin-fabric/Sweeps/A": fixed(sample{`{reason="boot"}`, 0}, sample{`{reason="ended"}`, 0}, sample{`{reason="overdue"}`, 0}, sample{`{reason="orphan"}`, 0}),
	"quoin-fabric/Sweeps/B": fixed(sample{`{}`, 0}),
	"quoin-fabric/Sweeps/C": fixed(sample{`{}`, 4 * rate(6, 5)}),
	"quoin-fabric/Samples of held devices/A": func(m moment) []sample {
		return []sample{{`{result="ok"}`, m.all().sampled()}, {`{result="missing"}`, 0}}
	},
	"quoin-fabric/Devices that the exporter names no or other jobs of/A": fixed(),
	"quoin-fabric/Publications/A":                                        fixed(sample{`{publication="slurm", reason="Placed"}`, 3}, sample{`{publication="slurm", reason="NoNVLinkDomain"}`, 1}),
	"quoin-fabric/Publications/B":                                        fixed(sample{`{publication="slurm", reason="BigChange"}`, 1}),
	"quoin-fabric/Publications/C":                                        fixed(sample{`{publication="slurm", reason="XidCritical"}`, 1}),
	"quoin-fabric/Job summaries on the nodes/A":                          one(func(m moment) float64 { return ended(m) }),
	"quoin-fabric/$instance":                                             values("instance", "10.0.0.1:9835", "10.0.0.2:9835", "10.0.0.3:9835", "10.0.0.4:9835"),
}

// sampled is what rate() gives of the samples of held devices, summed over the nodes and
// rounded: Prometheus adds them in any order.
func (m moment) sampled() float64 {
	held := map[int]float64{}
	for p := range m.devices() {
		held[p.Node]++
	}
	sum := 0.0
	for n := range hour.Nodes {
		sum += rate(held[n], 5)
	}
	return math.Round(1000*sum) / 1000
}

// records is how many nodes have a record of each job, in all.
func (m moment) records() (n float64) {
	seen := map[string]bool{}
	for _, h := range m.holds() {
		if key := fmt.Sprint(h.ID, h.Node); !seen[key] {
			seen[key] = true
			n++
		}
	}
	return n
}

// ended is how many jobs have ended, on three devices that nobody has held since.
func ended(m moment) float64 {
	if m.minute < 30 {
		return 0
	}
	return 1
}

// sickGPUs expects a row for the GPU of n4 that had a Xid, and one for that of n2 which
// falters.
func sickGPUs(n4, n2 float64) func(moment) []sample {
	return func(m moment) []sample {
		rows := []sample{{`{UUID="GPU-41000000-1111-4222-8333-444455556666", gpu="1", modelName="NVIDIA GB200", node="n4"}`, n4}}
		if m.minute >= hour.Nodes[1].Devices[2].Falters {
			rows = append(rows, sample{`{UUID="GPU-22000000-1111-4222-8333-444455556666", gpu="2", modelName="NVIDIA H100 80GB HBM3", node="n2"}`, n2})
		}
		return rows
	}
}

// agentLabels are those that the scrape gives the agent's series.
func agentLabels(n int, more map[string]string) map[string]string {
	set := map[string]string{"instance": fmt.Sprintf("10.0.0.%d:9835", n+1), "job": "quoin-agent"}
	if hour.Nodes[n].Label {
		set["node"] = hour.Nodes[n].Name
	}
	maps.Copy(set, more)
	return set
}

func fabricInfo(n int) sample {
	uuid, clique, _ := strings.Cut(hour.Nodes[n].Clique, ".")
	return sample{labels("quoin_agent_fabric_info", agentLabels(n, map[string]string{"cluster_uuid": uuid, "clique": clique, "state": "completed"})), 1}
}

func imexInfo(n int) sample {
	return sample{labels("quoin_agent_imex_info", agentLabels(n, map[string]string{"channel_major": "234", "state": hour.Nodes[n].IMEX})), 1}
}

// quantile is what histogram_quantile gives of calls that all took between 2.5 and
// 5 ms.
func quantile(q float64) float64 {
	low, high := 0.0025, 0.005
	return low + (high-low)*q
}
