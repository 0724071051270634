package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// simulation is a simulated machine. It reads its site again when the file has changed.
type simulation struct {
	site, node string
	modified   time.Time
	cluster    *simulated.Cluster
	wanted     []string
	// energy is the energy that devices have used since the first sample, in joules, by
	// UUID. asOf is the time of the last sample.
	energy map[string]float64
	asOf   time.Time
}

func (s *simulation) Read() (*topology.Node, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	m, err := s.cluster.Machine(s.node)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.site, err)
	}
	if m.Report == nil {
		return nil, fmt.Errorf("%s: machine %s is silent in this file", s.site, s.node)
	}
	n := *m.Report
	n.Domain = topology.NVLinkDomain{} // one reading confirms nothing
	return &n, nil
}

func (s *simulation) Want(uuids []string) { s.wanted = uuids }

// checkSimulated refuses a site that cannot be read and a machine that the site
// lacks. Both are mistakes on the command line, not troubles of a machine.
func checkSimulated(c *config.Machine, node string) error {
	if c.Simulate == "" {
		return nil
	}
	s := &simulation{site: c.Simulate, node: node}
	if err := s.load(); err != nil {
		return fmt.Errorf("--simulate: %w", err)
	}
	if _, err := s.cluster.Machine(node); err != nil {
		return fmt.Errorf("--node %s: %s: %w", node, c.Simulate, err)
	}
	return nil
}

// Sample returns no device while the file cannot be read. The next reading reports the
// error.
func (s *simulation) Sample() topology.Sample {
	if err := s.load(); err != nil {
		return topology.Sample{}
	}
	uses, err := s.cluster.Use(s.node)
	if err != nil {
		return topology.Sample{}
	}
	now := time.Now()
	seconds := now.Sub(cmp.Or(s.asOf, now)).Seconds()
	s.asOf = now
	out := topology.Sample{Devices: []topology.DeviceUse{}}
	for _, d := range uses {
		if d.Power != nil {
			joules := s.energy[d.UUID] + *d.Power*seconds
			s.energy[d.UUID] = joules
			d.Energy = &joules
		}
		if slices.Contains(s.wanted, d.UUID) {
			out.Devices = append(out.Devices, d)
		}
	}
	return out
}

// Look says nothing: nobody knows the programs of a simulated machine by their PIDs.
func (s *simulation) Look() topology.Sample { return topology.Sample{} }

// load reads the site again if its file has changed. A site that comes with quoin has
// no file, and is read once.
func (s *simulation) load() error {
	var modified time.Time
	if info, err := os.Stat(s.site); err == nil {
		modified = info.ModTime()
	}
	if s.cluster != nil && modified.Equal(s.modified) {
		return nil
	}
	c, err := simulated.Load(s.site)
	if err != nil {
		return show.Unopened(err, s.site, "a file with a site, or the name of a site of quoin demo --list")
	}
	s.cluster, s.modified = c, modified
	return nil
}
