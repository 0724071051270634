package jobs

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Describe implements prometheus.Collector.
func (s *series) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range jobDescriptions {
		ch <- d.desc
	}
	s.hookRuns.Describe(ch)
	s.hookErrors.Describe(ch)
	s.hookTook.Describe(ch)
	s.gatePassed.Describe(ch)
	s.gateTook.Describe(ch)
}

// Collect implements prometheus.Collector.
func (s *series) Collect(ch chan<- prometheus.Metric) {
	last, up := s.snapshot(), s.up()
	for _, of := range last.jobs {
		for i := range of {
			ch <- of[i].metric
		}
	}
	for i := range last.devices {
		d := &last.devices[i]
		seriesInfo.send(ch, 1, append(d.labels[:], d.info[:]...)...)
		held := d.held
		if d.running {
			held += max(0, up-last.at)
		}
		seriesHeld.send(ch, held.Seconds(), d.labels[:]...)
		seriesIdle.send(ch, d.idle.Seconds(), d.labels[:]...)
		seriesStretch.send(ch, d.stretch.Seconds(), d.labels[:]...)
	}
	seriesGPUs.send(ch, float64(last.allocated), "allocated")
	seriesGPUs.send(ch, float64(last.free), "idle")
	last.collectAgent(ch)
	s.hookRuns.Collect(ch)
	s.hookErrors.Collect(ch)
	s.hookTook.Collect(ch)
	s.gatePassed.Collect(ch)
	s.gateTook.Collect(ch)
}

// collectAgent collects what the agent did and found.
func (s *snapshot) collectAgent(ch chan<- prometheus.Metric) {
	seriesSweeps.send(ch, s.counts.sweeps)
	seriesSweepErrs.send(ch, s.counts.sweepErrors)
	seriesRepairs.send(ch, s.counts.repairs)
	for reason, n := range s.counts.released {
		seriesReleased.send(ch, n, reason)
	}
	for state, n := range map[string]int{"held": s.counts.held, "empty": s.counts.empty, "foreign": s.counts.foreign} {
		seriesFiles.send(ch, float64(n), state)
	}
	for state, n := range map[string]int{"alive": s.alive, "unproven": s.unproven, "unreadable": s.unreadable} {
		seriesRecords.send(ch, float64(n), state)
	}
	seriesSummaries.send(ch, float64(s.summaries))
	seriesSamples.send(ch, s.samplesTaken, "ok")
	seriesSamples.send(ch, s.samplesMissing, "missing")
	if s.imex {
		seriesIMEX.send(ch, 1, s.channelMajor, s.imexState)
	}
}
