package manifests_test

import (
	"math"
	"slices"

	"github.com/quoin-hpc/quoin/test/rig/hour"
)

// shut are the words of a gate that was not open.
var shut = []string{"warn", "hold", "fail"}

var imexExpectations = map[string]func(moment) []sample{
	"quoin-imex/Members/A":   one(func(m moment) float64 { return hour.Members(m.minute)["Ready"] }),
	"quoin-imex/Not ready/A": one(func(m moment) float64 { return hour.NotReady(m.minute) }),
	"quoin-imex/Problems of the domain/A": one(func(m moment) float64 {
		return map[bool]float64{true: 1}[m.minute < hour.DomainFrom]
	}),
	"quoin-imex/Gate shut in the time shown/A": one(func(m moment) float64 { return math.Round(m.gates(shut...)) }),
	"quoin-imex/of these, failed or held/A":    one(func(m moment) float64 { return math.Round(m.gates("fail", "hold")) }),
	"quoin-imex/Waited in the time shown/A": one(func(m moment) float64 {
		return math.Round(sumNodes(func(n *hour.Node) float64 { return increased(m.minute, m.minutes, n.GateWaited) }))
	}),
	"quoin-imex/Nodes by verdict/A": func(m moment) []sample {
		var rows []sample
		for reason, n := range hour.Members(m.minute) {
			rows = append(rows, sample{labels("", map[string]string{"reason": reason}), n})
		}
		return rows
	},
	"quoin-imex/Nodes that are not ready/A": func(m moment) []sample {
		var rows []sample
		for i := range hour.Nodes {
			if reason, said := hour.Nodes[i].Membership(m.minute); said && reason != "Ready" {
				rows = append(rows, sample{labels("quoin_agent_imex_ready", agentLabels(i, map[string]string{"clique": hour.Nodes[i].Clique, "reason": reason})), 0})
			}
		}
		return rows
	},
	"quoin-imex/Members by NVLink clique/A": func(m moment) []sample {
		joined := map[bool]float64{true: 1}[m.minute >= hour.DomainFrom] // of two in clique B one
		return []sample{{`{clique="` + hour.CliqueA + `"}`, joined}, {`{clique="` + hour.CliqueB + `"}`, joined}}
	},
	"quoin-imex/Members by NVLink clique/B": fixed(sample{`{clique="` + hour.CliqueA + `"}`, 1}, sample{`{clique="` + hour.CliqueB + `"}`, 2}),
	"quoin-imex/ComputeDomain/A": func(m moment) []sample {
		set := map[string]string{"namespace": "quoin-node", "name": "quoin"}
		set["uid"], set["problem"] = hour.Domain(m.minute)
		return []sample{{labels("", set), 1}}
	},
	"quoin-imex/Jobs across nodes at the gate/A": func(m moment) []sample {
		m.minutes = 5
		var rows []sample
		for _, word := range hour.GateResults {
			rows = append(rows, sample{labels("", map[string]string{"result": word}), m.gates(word)})
		}
		return rows
	},
	"quoin-imex/Wait at the gate/A": one(func(m moment) float64 { return gateQuantile(m, 0.5) }),
	"quoin-imex/Wait at the gate/B": one(func(m moment) float64 { return gateQuantile(m, 0.99) }),
	"quoin-imex/Gates that were shut in the time shown/A": func(m moment) []sample {
		var rows []sample
		for i := range hour.Nodes {
			for _, word := range shut {
				if n := math.Round(m.gatesOf(&hour.Nodes[i], word)); n > 0 {
					rows = append(rows, sample{labels("", map[string]string{"instance": agentLabels(i, nil)["instance"], "result": word}), n})
				}
			}
		}
		return rows
	},
	"quoin-imex/$instance": values("instance", "10.0.0.1:9835", "10.0.0.2:9835", "10.0.0.3:9835", "10.0.0.4:9835"),
}

func sumNodes(value func(*hour.Node) float64) (sum float64) {
	for i := range hour.Nodes {
		sum += value(&hour.Nodes[i])
	}
	return sum
}

// gates is what increase() gives of the jobs that came through all gates with one of
// the words in the time shown.
func (m moment) gates(words ...string) float64 {
	return sumNodes(func(n *hour.Node) float64 {
		sum := 0.0
		for _, word := range words {
			sum += m.gatesOf(n, word)
		}
		return sum
	})
}

func (m moment) gatesOf(n *hour.Node, word string) float64 {
	return increased(m.minute, m.minutes, func(minute int) float64 {
		return n.Gates(minute, func(result string, _ float64) bool { return result == word })
	})
}

// gateQuantile is what histogram_quantile gives of the jobs of the last five minutes.
func gateQuantile(m moment, q float64) float64 {
	below := func(le float64) float64 {
		return sumNodes(func(n *hour.Node) float64 {
			return increased(m.minute, 5, func(minute int) float64 {
				return n.Gates(minute, func(_ string, waited float64) bool { return waited <= le })
			})
		})
	}
	rank := q * below(math.Inf(1))
	i := slices.IndexFunc(hour.GateBuckets, func(le float64) bool { return below(le) >= rank })
	low, lower := 0.0, 0.0
	if i > 0 {
		low, lower = hour.GateBuckets[i-1], below(hour.GateBuckets[i-1])
	}
	high := hour.GateBuckets[i]
	return low + (high-low)*((rank-lower)/(below(high)-lower))
}

// increased is what increase() gives of a counter over the minutes before half past one:
// it reckons with the half minutes at both ends, but not with a counter below zero.
func increased(minute, minutes int, value func(minute int) float64) float64 {
	first := value(minute - minutes + 1)
	grown := value(minute) - first
	sampled := float64(60 * (minutes - 1))
	before := 30.0
	if grown > 0 {
		before = min(before, sampled*(first/grown))
	}
	return grown * ((sampled + before + 30) / sampled)
}
