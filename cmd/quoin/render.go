package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// renderOptions are the flags of quoin render.
type renderOptions struct {
	freshOptions
	dir string
}

func newRenderCommand() *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "render [--nodes FILE | --ibnetdiscover FILE | REPORT...]",
		Short: "Show the Slurm files of a cluster, from its node labels or reports, with nothing installed",
		Long: `render makes topology.conf or topology.yaml, and gres.conf: from the nodes and reports of a
cluster or a directory, from --nodes, or from reports alone. Names, order and base block
size of a stored plan stay. Without blocks and switches there is no topology file, because
it would take the place of the site's own. On stderr it lists the nodes that are in no
block or switch, with the reason, and the partitions that slurm.conf needs if racks have
topologies of their own.

--ibnetdiscover adds the switches of an InfiniBand fabric, as quoin map --help says. Without
nodes and reports it makes a topology file of all hosts that the fabric names.

With --skeleton the topology file has every block and every switch, but no node. Such a
file is for nodes that register dynamically: the node, or Slinky, names its block and its
leaf switch then.

A report that cannot be read (ReportUnreadable) costs its own node only: without labels
that place it, the node is left out.

Exit status: 3 if a report could not be read, or if no node has a place and nothing says
whether NVLink joins the nodes.`,
		Example: `  quoin render
  kubectl get nodes -o json | quoin render --nodes -
  sudo ibnetdiscover | quoin render --ibnetdiscover -
  quoin render --format conf --dir DIR REPORT.json...
  quoin render --config quoin.yaml --set publicationDefaults.baseBlockSize=18 --nodes nodes.json`,
		RunE: o.render,
	}
	o.addFlags(cmd, "text", outputJSON)
	o.addFileFlags(cmd)
	o.addCables(cmd)
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "write the files into this `directory` instead of printing them")
	f.BoolVar(&o.skeleton, "skeleton", false, "leave nodes and gres.conf out, for nodes that register dynamically (Slurm 25.05 and newer)")
	return cmd
}

func (o *renderOptions) render(cmd *cobra.Command, reports []string) error {
	w, err := o.open(cmd, reports, nodesOrReports)
	if err != nil {
		return err
	}
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	made, err := o.makeFresh(w)
	if err != nil {
		return err
	}
	if o.output != outputJSON {
		sayGuess(stderr, w.pub, "the files are for Slurm %s and newer")
		made.sayNames(stderr)
		show.Print(stderr, "left out: ", made.Left)
		show.Print(stderr, "problem: ", made.FilePlan.Problems)
		show.Print(stderr, "", made.Findings)
		if made.FilePlan.ByAnnotation && !o.skeleton {
			fmt.Fprintf(stderr, "%d nodes are placed by annotation: see them by quoin map, or in the file by --set publicationDefaults.membership=file\n", len(made.Specs))
		}
		show.Partitions(stderr, "", made.Partitions())
		noteGresAlone(stderr, made)
	} else if err := printRendered(stdout, made.Rendered); err != nil {
		return err
	}
	if made.Refused != "" {
		return fmt.Errorf("%s; nothing was written", made.Message)
	}
	switch {
	case o.dir != "":
		err = writeFiles(stdout, stderr, o, made.Rendered)
	case o.output != outputJSON:
		err = printFiles(stdout, made.Files)
	}
	return cmp.Or(err, errUnread(stderr, made.FilePlan.Problems), errNoPlace(stderr, made.Rendered))
}

// noteGresAlone says that there is no topology file.
func noteGresAlone(stderr io.Writer, made *fresh) {
	if made.Refused != "" || len(made.FilePlan.Topologies) > 0 {
		return
	}
	fmt.Fprintln(stderr, "no node has a place, so there is no topology file: Slurm goes by the site's own, or takes all nodes as equally near")
}

// errNoPlace says that no node has a place, and that nothing says whether NVLink joins the nodes.
func errNoPlace(stderr io.Writer, made *publisher.Rendered) error {
	if len(made.FilePlan.Topologies) > 0 || slices.ContainsFunc(made.FilePlan.Problems, func(f topology.Finding) bool { return f.Reason == placement.ReasonSwitchesUnknown }) {
		return nil
	}
	unknown := 0
	for i := range made.Left {
		if reason := made.Left[i].Reason; reason == placement.ReasonNoFacts || reason == placement.ReasonNoDomain {
			unknown++
		}
	}
	if unknown == 0 {
		return nil
	}
	fmt.Fprintf(stderr, "not known: whether NVLink joins these %d nodes: label their NVLink domain or their switches, or give their reports\n", unknown)
	return show.NotKnown
}

// rendered is the document of quoin render.
type rendered struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Digest     string            `json:"digest,omitempty"`
	Files      map[string]string `json:"files"`
	LeftOut    []show.Group      `json:"leftOut"`
	Problems   []show.Group      `json:"problems"`
	Findings   []show.Group      `json:"findings"`
	// Partitions are lines of slurm.conf, if there are several block topologies.
	Partitions []string `json:"partitions,omitempty"`
	// Refused is the reason word if the files must not be used, and Message says why.
	Refused string `json:"refused,omitempty"`
	Message string `json:"message,omitempty"`
}

func printRendered(w io.Writer, m *publisher.Rendered) error {
	return show.JSON(w, rendered{topology.APIVersion, "RenderResult", m.Digest, m.Files,
		show.Groups(m.Left), show.Groups(m.FilePlan.Problems), show.Groups(m.Findings), m.Partitions(), m.Refused, m.Message})
}

// writeFiles writes the files into the directory, and warns of older ones there.
func writeFiles(stdout, stderr io.Writer, o *renderOptions, made *publisher.Rendered) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	for _, name := range publisher.FileNames(made.Files) {
		path := filepath.Join(o.dir, name)
		if err := atomicfile.WriteDurably(path, []byte(made.Files[name]), 0o644); err != nil {
			return fmt.Errorf("write files: %w", err)
		}
		if o.output != outputJSON {
			fmt.Fprintf(stdout, "wrote %s\n", path)
		}
	}
	for _, name := range slurmFiles {
		if _, made := made.Files[name]; made {
			continue
		}
		if path := filepath.Join(o.dir, name); exists(path) {
			fmt.Fprintf(stderr, "warning: %s is an older file that was not written now; remove it if Slurm would read it (topology.yaml goes before topology.conf)\n", path)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// printFiles prints each file under a comment with its name. Slurm can read the output as
// it is if there is one file only.
func printFiles(w io.Writer, files map[string]string) error {
	for i, name := range publisher.FileNames(files) {
		sep := ""
		if i > 0 {
			sep = "\n"
		}
		if _, err := fmt.Fprintf(w, "%s# ---- %s ----\n%s", sep, name, files[name]); err != nil {
			return fmt.Errorf("print files: %w", err)
		}
	}
	return nil
}
