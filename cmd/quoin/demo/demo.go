// Package demo shows a simulated site: the map, the Slurm files, and a day of trouble.
// It runs the code of agent and publisher in this process, on a store in a directory.
package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
	"github.com/quoin-hpc/quoin/topology/reportdir"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// defaultSite is shown if none is named; with Watch it is the one with a timeline.
const (
	defaultSite = "gb200-nvl72x4"
	troubleSite = "day-of-trouble"
)

// Options say what is shown.
type Options struct {
	// Site is a shipped site, or the file of one. Empty: the default, or with Watch the
	// one with a timeline.
	Site string
	// Watch plays the site's timeline, with Pause between two moments.
	Watch bool
	Pause time.Duration
	// Page is the address at which the map is served as a page, or empty.
	Page string
	// Store is the directory that keeps reports and files. Empty: a temporary one.
	Store string
	// Publication says what files are made.
	Publication *publication.Cluster
	// Demo is how the user starts the demo, and OwnCluster how quoin on a cluster.
	Demo, OwnCluster string
}

// List lists the sites that come with quoin.
func List(w io.Writer) error {
	for _, name := range simulated.Shipped() {
		c, err := simulated.Open(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-16s %s: %s\n", name, c.Name, c.About)
	}
	return nil
}

// demonstration is one site in one store.
type demonstration struct {
	Options
	show.Screen
	dir     string // Store, or a temporary one
	cluster *simulated.Cluster
	store   *dir.Store
	// silent are the machines that exist and do not report.
	silent []string
	source *pageSource // or nil
}

// Run shows a site until the end or until the reader has seen enough.
func Run(ctx context.Context, w io.Writer, o Options) error {
	if o.Site == "" {
		o.Site = defaultSite
		if o.Watch {
			o.Site = troubleSite
		}
	}
	cluster, err := simulated.Load(o.Site)
	if err != nil {
		return show.Unopened(err, o.Site, "a file with a site, or the name of a site of --list")
	}
	if o.Watch && len(cluster.Steps) == 0 {
		return fmt.Errorf("site %s has no timeline to --watch: want %s, or a file with one", o.Site, troubleSite)
	}
	// A closed pipe and a closed terminal end the demo as Ctrl-C does.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGPIPE, syscall.SIGHUP)
	defer stop()
	d := &demonstration{Options: o, Screen: show.NewScreen(w), dir: o.Store, cluster: cluster}
	if o.Store == "" {
		if d.dir, err = os.MkdirTemp("", "quoin-demo-"); err != nil {
			return fmt.Errorf("make store: %w", err)
		}
	}
	d.store = dir.New(d.dir)
	err = d.show(ctx)
	if o.Store == "" {
		err = errors.Join(err, os.RemoveAll(d.dir))
	}
	if ctx.Err() != nil || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// show prints what the options ask for.
func (d *demonstration) show(ctx context.Context) error {
	if err := d.refuseOtherSites(); err != nil {
		return err
	}
	d.Printf("%s  %s\n", d.Bold(cmp.Or(d.cluster.Name, d.Site)), d.cluster.About)
	if d.Page != "" {
		if err := d.servePage(ctx); err != nil {
			return err
		}
	}
	if d.Watch {
		if err := d.watch(ctx); err != nil {
			return err
		}
	} else if err := d.once(ctx); err != nil {
		return err
	}
	if d.Page != "" {
		d.stay(ctx)
	}
	return nil
}

// once shows the site as it is, and its files.
func (d *demonstration) once(ctx context.Context) error {
	made, err := d.round(ctx, false)
	if err != nil {
		return err
	}
	if made.Refused != "" {
		return errors.New(made.Message)
	}
	d.files(made.Files)
	d.next()
	return nil
}

// refuseOtherSites refuses a store with the report of a machine that is not in the site.
func (d *demonstration) refuseOtherSites() error {
	reports, err := filepath.Glob(filepath.Join(d.dir, "reports", "*.json"))
	if err != nil {
		return fmt.Errorf("read store: %w", err)
	}
	for _, r := range reports {
		name := strings.TrimSuffix(filepath.Base(r), ".json")
		if _, err := d.cluster.Machine(name); err != nil {
			return fmt.Errorf("store %s has the report of %s, which is no machine of this site: give --store an empty directory", d.dir, name)
		}
	}
	return nil
}

// round lets every machine report, publishes, and draws the map.
func (d *demonstration) round(ctx context.Context, brief bool) (*publisher.Rendered, error) {
	if err := d.report(ctx); err != nil {
		return nil, err
	}
	made, err := publisher.Once(ctx, d.store, d.Publication)
	if err != nil {
		return nil, err
	}
	if made.Plan == nil {
		return nil, errors.New(made.Message)
	}
	site := &picture.Site{Plan: made.Plan, Facts: made.Judged, Said: fabricsSaid(made.Judged)}
	for i := range site.Facts {
		// The store cannot tell who is silent: it has their last reports, and a report has no time.
		if f := &site.Facts[i]; slices.Contains(d.silent, f.Name) {
			f.Gone = true
		}
	}
	if d.source != nil {
		d.source.set(made, site.Facts)
	}
	if brief { // what happens at the moment is said above
		site.Said = nil
	}
	d.Printf("\n")
	return made, picture.Terminal(d.Writer, site, picture.Options{Color: d.Color, Width: min(d.Width, 100), BlocksOnly: brief, Problems: show.Lines(site.Plan.Problems)})
}

// report writes what agents and kubelets of the machines would have written. The last
// report of a silent machine stays.
func (d *demonstration) report(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(d.dir, "nodes"), 0o755); err != nil {
		return fmt.Errorf("make store: %w", err)
	}
	d.silent = nil
	for _, m := range d.cluster.Machines() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := d.reportMachine(ctx, &m); err != nil {
			return err
		}
	}
	return nil
}

func (d *demonstration) reportMachine(ctx context.Context, m *simulated.Machine) error {
	node := filepath.Join(d.dir, "nodes", m.Name+".json")
	if !m.Exists {
		for _, path := range []string{node, filepath.Join(d.dir, "reports", m.Name+".json")} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove from store: %w", err)
			}
		}
		return nil
	}
	labels, err := json.Marshal(map[string]any{"labels": m.Labels})
	if err == nil {
		err = os.WriteFile(node, labels, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write labels: %w", err)
	}
	if m.Report == nil {
		d.silent = append(d.silent, m.Name)
		return nil
	}
	report, err := topology.EncodeReport(m.Report)
	if err != nil {
		return err
	}
	return reportdir.New(d.dir, m.Name).Put(ctx, report)
}

// fabricsSaid is what the publisher's conditions say of the nodes' NVLink fabrics. It is nil if no fabric is faulty.
func fabricsSaid(facts []topology.Facts) map[string]picture.Said {
	said, faulty := map[string]picture.Said{}, false
	for i := range facts {
		f := &facts[i]
		if c, known := nodestatus.FabricCondition(f.Report, &f.Fabric); known {
			said[f.SlurmName] = picture.Said{Fabric: picture.Verdict{Wrong: c.True, Reason: c.Reason, Message: c.Message}}
			faulty = faulty || c.True
		}
	}
	if !faulty {
		return nil
	}
	return said
}
