package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

func newCheckCommand() *cobra.Command {
	var o filesOptions
	var shown, name string
	cmd := &cobra.Command{
		Use:   "check [PATH | --fresh | --nodes FILE | REPORT...]",
		Short: "Say where the topology that Slurm has loaded differs from what is published",
		Long: `check asks the running Slurm (slurm.url or slurm.scontrol of the publication), and names
each node that Slurm does not know, or has in another place than published. Groups that have
the same nodes under another name are named in one line.

With --topology it reads the output of scontrol show topology instead, and lists the nodes,
blocks, switches and block sizes that differ. That output has no name of a topology: without
--topology-name check takes the topology with most of the shown blocks or switches, and
names it. Slurm shows block sizes only up to the first one that spans all blocks.

With --fresh, --nodes or reports check compares Slurm with the files that render would
make. With PATH, a directory of Slurm's files or one file, it compares Slurm with these.

Exit status: 1 if it differs, 3 if something could not be compared.`,
		Example: `  quoin check
  quoin check --fresh
  quoin check /etc/slurm --set publicationDefaults.slurm.scontrol=scontrol
  scontrol show topology | quoin check --topology - topology.conf
  scontrol show topology fabric | quoin check --topology - --topology-name fabric
  kubectl get nodes -o json >nodes.json; scontrol show topology | quoin check --topology - --nodes nodes.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := o.takeArgs(args)
			if err != nil {
				return err
			}
			if name != "" && shown == "" {
				return errors.New("--topology-name: want --topology beside it; without it all topologies are compared")
			}
			if err := o.checkInput("topology", shown); err != nil {
				return err
			}
			return o.judge(cmd, args, func(w *wanted) (*show.Result, error) { return o.compare(shown, name, w) })
		},
	}
	cmd.Flags().StringVar(&shown, "topology", "", "`file` with the output of scontrol show topology, - for standard input; default: ask the running Slurm")
	cmd.Flags().StringVar(&name, "topology-name", "", "`name` of the topology that --topology shows")
	o.addFlags(cmd)
	return cmd
}

// compare compares the files with what Slurm has, as a file or the running Slurm says.
func (o *filesOptions) compare(shown, name string, w *wanted) (*show.Result, error) {
	files := w.whole
	i := slices.IndexFunc(files, isTopology)
	if i < 0 {
		if o.files == "" {
			return nil, errors.New("the files have no topology, because no node has a place: quoin map says why")
		}
		return nil, fmt.Errorf("%s: no topology.yaml and no topology.conf in it", o.files)
	}
	if shown != "" {
		return checkShown(w.cmd.InOrStdin(), shown, name, files[i])
	}
	slurm := slurmOnce(w.pub)
	if slurm == nil {
		return nil, errors.New("the publication does not say how Slurm is asked: set " + slurmKeys + "; or give --topology FILE (- for standard input)")
	}
	texts := map[string]string{}
	for _, f := range files { // which may have other names
		name := "topology.conf"
		switch {
		case !isTopology(f):
			name = gresFile
		case strings.HasSuffix(f.Name, ".yaml"):
			name = "topology.yaml"
		}
		texts[name] = string(f.Data)
	}
	places, err := loaded.ReadWanted(texts)
	if err != nil {
		return nil, err
	}
	a := slurm.Newer(w.cmd.Context(), places.Question(), time.Now())
	if a.Err != nil {
		return nil, fmt.Errorf("ask Slurm: %w; --topology takes the output of scontrol show topology instead", a.Err)
	}
	return show.LoadedResult(places, &a.State), nil
}

// checkShown says where Slurm has loaded another topology than the file has. name is the
// topology, or empty: the one that is most like what is shown.
func checkShown(stdin io.Reader, from, name string, file lint.File) (*show.Result, error) {
	shown, err := readShown(stdin, from)
	if err != nil {
		return nil, err
	}
	all, err := slurmconf.ParseTopologies(file.Name, file.Data)
	if err != nil {
		return nil, located(file, err)
	}
	wanted := slurmctld.Like(shown, all)
	var names []string
	for i := range all {
		names = append(names, all[i].Name)
		if all[i].Name == name {
			wanted = all[i]
		}
	}
	if name != "" && wanted.Name != name {
		return nil, fmt.Errorf("--topology-name %s: %s has no such topology: want one of %s", name, file.Name, strings.Join(names, ", "))
	}
	differences, nodes := slurmctld.CompareShown(shown, wanted)
	return show.ShownResult(differences, nodes, wanted.Name, slices.DeleteFunc(names, func(n string) bool { return n == wanted.Name })), nil
}

func readShown(stdin io.Reader, name string) (topology.Topology, error) {
	in, name, err := session.OpenInput(stdin, name, "scontrol show topology")
	if err != nil {
		return topology.Topology{}, fmt.Errorf("read topology: %w", err)
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(in)
	if err != nil {
		return topology.Topology{}, fmt.Errorf("read topology: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return topology.Topology{}, fmt.Errorf("%s: empty: want the output of scontrol show topology; does slurmctld answer, and is a topology plugin configured? where the default topology is flat, name another, as in scontrol show topology nvl", name)
	}
	return slurmctld.ParseShown(name, text)
}
