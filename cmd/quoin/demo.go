package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// demoOptions are the flags of quoin demo.
type demoOptions struct {
	watch, list bool
	store       string
	pause       time.Duration
	pub         publisher.Publication
}

// defaultSite is shown when none is named; with --watch the one with a timeline.
const (
	defaultSite = "gb200-nvl72x4"
	troubleSite = "day-of-trouble"
)

func newDemoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo [SITE | FILE.yaml]",
		Short: "Show a simulated site: its map, its Slurm files and what to try next",
		Long: `demo runs the agent's and the publisher's code on a simulated site in this
process, with a directory as the store: no cluster, no GPU, no root.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.list {
				return listSites(cmd.OutOrStdout())
			}
			site := defaultSite
			if o.watch {
				site = troubleSite
			}
			if len(args) > 0 {
				site = args[0]
			}
			return demo(cmd.Context(), cmd.OutOrStdout(), site, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.watch, "watch", false, "play what happens at the site over a day")
	f.BoolVar(&o.list, "list", false, "list the sites that come with quoin")
	f.StringVar(&o.store, "store", "", "keep reports and files in this `directory`; default: a temporary one")
	f.DurationVar(&o.pause, "pause", 1500*time.Millisecond, "pause between two moments of --watch")
	addPublicationFlags(cmd, &o.pub)
	return cmd
}

func listSites(w io.Writer) error {
	for _, name := range simulated.Shipped() {
		c, err := simulated.Open(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-16s %s: %s\n", name, c.Name, c.About)
	}
	return nil
}

// openSite opens a shipped site by name, or a file.
func openSite(site string) (*simulated.Cluster, error) {
	if !strings.HasSuffix(site, ".yaml") && !strings.HasSuffix(site, ".yml") {
		return simulated.Open(site)
	}
	data, err := os.ReadFile(site)
	if err != nil {
		return nil, fmt.Errorf("read site: %w", err)
	}
	return simulated.Parse(site, data)
}

// demonstration is one site in one store.
type demonstration struct {
	w       io.Writer
	color   bool
	dir     string
	site    string
	cluster *simulated.Cluster
	store   *publisher.DirStore
	pub     *publisher.Publication
}

func demo(ctx context.Context, w io.Writer, site string, o *demoOptions) error {
	cluster, err := openSite(site)
	if err != nil {
		return err
	}
	settleFormat(&o.pub)
	pubs, err := publisher.Complete([]publisher.Publication{o.pub})
	if err != nil {
		return err
	}
	if o.store == "" {
		if o.store, err = os.MkdirTemp("", "quoin-demo-"); err != nil {
			return fmt.Errorf("make store: %w", err)
		}
	}
	d := &demonstration{w: w, color: isTerminal(w), dir: o.store, site: site, cluster: cluster, store: publisher.NewDirStore(o.store), pub: &pubs[0]}
	if o.watch && len(cluster.Steps) == 0 {
		return fmt.Errorf("site %s has no timeline to --watch: want %s, or a file with one", site, troubleSite)
	}
	fmt.Fprintf(w, "%s: %s\n\n", d.paint(cluster.Name), cluster.About)
	made, err := d.round(ctx)
	if err != nil {
		return err
	}
	if o.watch {
		return d.watch(ctx, o.pause)
	}
	d.files(made)
	d.next()
	return nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (d *demonstration) paint(s string) string {
	if d.color {
		return "\x1b[1m" + s + "\x1b[0m"
	}
	return s
}

// round lets every machine report, publishes, and draws the map.
func (d *demonstration) round(ctx context.Context) (*publisher.Made, error) {
	if err := d.report(ctx); err != nil {
		return nil, err
	}
	made, facts, err := publisher.Once(ctx, d.store, d.pub)
	if err != nil {
		return nil, err
	}
	if made.Refused != "" {
		return nil, errors.New(made.Message)
	}
	return made, picture.Terminal(d.w, made.Plan, facts, picture.Options{Color: d.color})
}

// report writes what agents and kubelets of the machines would have written. A
// machine that says nothing leaves its last report, as a silent agent does.
func (d *demonstration) report(ctx context.Context) error {
	for _, m := range d.cluster.Machines() {
		store := nodeagent.NewDirStore(d.dir, m.Name)
		if !m.Exists {
			if err := os.RemoveAll(filepath.Join(d.dir, "reports", m.Name+".json")); err != nil {
				return fmt.Errorf("remove report: %w", err)
			}
			continue
		}
		labels, err := json.Marshal(map[string]any{"labels": m.Labels})
		if err != nil {
			return fmt.Errorf("write labels: %w", err)
		}
		nodes := filepath.Join(d.dir, "nodes")
		if err := os.MkdirAll(nodes, 0o755); err != nil {
			return fmt.Errorf("write labels: %w", err)
		}
		if err := os.WriteFile(filepath.Join(nodes, m.Name+".json"), labels, 0o644); err != nil {
			return fmt.Errorf("write labels: %w", err)
		}
		if m.Report == nil {
			continue
		}
		data, err := topology.EncodeReport(m.Report)
		if err != nil {
			return err
		}
		if err := store.Put(ctx, data); err != nil {
			return err
		}
	}
	return nil
}

// watch plays the site's timeline.
func (d *demonstration) watch(ctx context.Context, pause time.Duration) error {
	for _, s := range d.cluster.Steps {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		before, err := d.store.Load(ctx, d.pub)
		if err != nil {
			return err
		}
		fmt.Fprintf(d.w, "\n%s  %s\n\n", d.paint(s.At), s.Say)
		d.cluster.Apply(s)
		if _, err := d.round(ctx); err != nil {
			return err
		}
		after, err := d.store.Load(ctx, d.pub)
		if err != nil {
			return err
		}
		d.changes(before.Files, after.Files)
	}
	fmt.Fprintf(d.w, "\nNo known block moved or changed its name over the day. The files are in %s\n", d.store.Place(d.pub))
	return nil
}

// changes shows the lines that a step changed.
func (d *demonstration) changes(before, after map[string]string) {
	total := 0
	for _, name := range fileNames(after) {
		was, is := strings.Split(before[name], "\n"), strings.Split(after[name], "\n")
		for _, l := range missingFrom(was, is) {
			fmt.Fprintf(d.w, "  %s: - %s\n", name, strings.TrimSpace(l))
			total++
		}
		for _, l := range missingFrom(is, was) {
			fmt.Fprintf(d.w, "  %s: + %s\n", name, strings.TrimSpace(l))
		}
	}
	if total == 0 {
		fmt.Fprintln(d.w, "  no file changed")
	}
}

// missingFrom returns the lines that other does not have.
func missingFrom(lines, other []string) []string {
	has := make(map[string]bool, len(other))
	for _, l := range other {
		has[l] = true
	}
	var out []string
	for _, l := range lines {
		if !has[l] {
			out = append(out, l)
		}
	}
	return out
}

// files prints the rendered files, long ones in part.
func (d *demonstration) files(made *publisher.Made) {
	const most = 28
	for _, name := range fileNames(made.Files) {
		fmt.Fprintf(d.w, "\n%s\n", d.paint(name))
		lines := strings.Split(strings.TrimRight(made.Files[name], "\n"), "\n")
		for i, l := range lines {
			if i == most {
				fmt.Fprintf(d.w, "  ... %d more lines\n", len(lines)-most)
				break
			}
			fmt.Fprintf(d.w, "  %s\n", l)
		}
	}
}

func (d *demonstration) next() {
	fmt.Fprintf(d.w, `
%s (after make build)
  bin/quoin demo --watch             a day of trouble, and what it changes
  bin/quoin demo --list              other sites; or write your own as YAML
  bin/quoin demo --format conf --slurm-version 24.11
  kubectl get nodes -o json | bin/quoin render --nodes -
                                     the same for your cluster, nothing installed

The files are in %s
`, d.paint("Try next"), d.store.Place(d.pub))
}
