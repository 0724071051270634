package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// filesOptions are the flags of a command that judges files: those that exist, those that are
// published, or those that the command makes first.
type filesOptions struct {
	freshOptions
	// confDir is the directory of slurm.conf, from which Slurm opens included files. Default:
	// that of the files.
	confDir string
}

func (o *filesOptions) addFlags(cmd *cobra.Command) {
	o.freshOptions.addFlags(cmd, "text", outputJSON)
	o.addFileFlags(cmd)
	o.addFresh(cmd)
}

// printResult prints a result in the form that is asked for, and returns the exit code.
func printResult(w io.Writer, output string, r *show.Result) error {
	if output == outputJSON {
		return r.JSON(w)
	}
	return r.Print(w).AsError()
}

const (
	gresFile   = "gres.conf"
	slurmConf  = "slurm.conf"
	cgroupConf = "cgroup.conf"
)

// slurmFiles are the files for Slurm. If both topology files exist, Slurm reads the first one.
var slurmFiles = []string{"topology.yaml", "topology.conf", gresFile}

// slurmLine is how the first line of Slurm's files begins that is no comment. Reports are JSON.
var slurmLine = regexp.MustCompile(`^(?:-\s|\w+\s*=|Include\s)`)

// isSlurms reports whether a path is Slurm's: a folder with one of Slurm's files, or a file by its name or its first
// line. A pipe is not looked at, because what is read of a pipe is gone.
func isSlurms(path string) bool {
	if session.IsDirectory(path) {
		all := append([]string{slurmConf}, slurmFiles...)
		return slices.ContainsFunc(all, func(name string) bool { return exists(filepath.Join(path, name)) })
	}
	if filepath.Ext(path) == ".conf" || filepath.Base(path) == "topology.yaml" {
		return true // also if nothing in it can be read
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && line != "---" && line[0] != '#' {
			return slurmLine.MatchString(line)
		}
	}
	return false
}

// takeArgs takes the arguments of map, lint and check: a path of Slurm's files, or reports. It returns the reports.
func (o *freshOptions) takeArgs(args []string) (reports []string, err error) {
	i := slices.IndexFunc(args, isSlurms)
	switch {
	case i >= 0 && len(args) > 1:
		return nil, fmt.Errorf("%s beside other arguments: want one folder or one file of Slurm, or reports", args[i])
	case i >= 0:
		o.files = args[0]
		return nil, nil
	case o.previous != "" && !o.fresh && !o.given(args):
		return nil, errors.New("--previous: want --fresh, --nodes or reports beside it, because what is published is taken as it is")
	}
	if i := slices.IndexFunc(args, func(path string) bool { return !exists(path) }); i >= 0 && args[i] != "-" {
		return nil, fmt.Errorf("%s is not there: want a folder with files of Slurm, one of these files, or reports of nodes", args[i])
	}
	return args, nil
}

// isTopology says that a file is no gres.conf.
func isTopology(f lint.File) bool { return !strings.HasSuffix(f.Name, gresFile) }

// wanted are the files that Slurm should have, in the order of slurmFiles, and what they belong to.
type wanted struct {
	*opened
	files []lint.File
	// whole are the same files with all known nodes in them, even if the nodes register with their places.
	whole []lint.File
	// facts are what the files were made of, if this command made them. unread are reports that could not be read.
	facts  []topology.Facts
	unread []topology.Finding
}

// judge prints what a command finds of the files that Slurm should have, after the reports that could not be read.
func (o *filesOptions) judge(cmd *cobra.Command, reports []string, find func(*wanted) (*show.Result, error)) error {
	w, err := o.read(cmd, reports)
	if err != nil {
		return err
	}
	r, err := find(w)
	if err != nil {
		return err
	}
	r.Findings = slices.Concat(w.unread, r.Findings)
	return printResult(cmd.OutOrStdout(), o.output, r)
}

// read returns the files that Slurm should have.
func (o *filesOptions) read(cmd *cobra.Command, reports []string) (*wanted, error) {
	on, err := o.open(cmd, reports, filesOrThese)
	if err != nil {
		return nil, err
	}
	w := &wanted{opened: on}
	switch {
	case o.files != "":
		w.files, err = readFiles(o.files, o.confDir)
		w.whole = w.files
	case w.Store != nil && !o.fresh:
		err = w.readPublished()
	default:
		made, err := o.makeFresh(on)
		if err != nil {
			return nil, err
		}
		if made.Refused != "" {
			return nil, errors.New(made.Message)
		}
		w.facts, w.unread = made.Judged, session.Unread(made.FilePlan.Problems)
		return w, w.take(made.Files, &made.FilePlan)
	}
	return w, err
}

// readPublished takes what is published. The stored plan has all nodes.
func (w *wanted) readPublished() error {
	ctx := w.cmd.Context()
	set, err := w.Store.Load(ctx, w.pub.Place())
	if err != nil {
		return err
	}
	doc, err := w.Plan(ctx, w.pub.Name)
	if err != nil {
		return err
	}
	plan := &doc.Current.Plan
	w.pub.Follow(0, plan)
	if set == nil || doc.Current.Number == 0 {
		return fmt.Errorf("nothing is published in %s: --fresh makes files of a new plan", w.pub.Place())
	}
	return w.take(set.Files, plan)
}

// take takes the files of a plan, and makes them with all known nodes too.
func (w *wanted) take(files map[string]string, plan *plandoc.Plan) error {
	whole, err := plan.Whole()
	w.files, w.whole = inOrder(files), inOrder(whole)
	return err
}

// inOrder returns files in the order of slurmFiles.
func inOrder(files map[string]string) (out []lint.File) {
	for _, name := range slurmFiles {
		if text, ok := files[name]; ok {
			out = append(out, lint.File{Name: name, Data: []byte(text)})
		}
	}
	return out
}

// readFiles reads a file, or the files for Slurm in a directory, with the files that they include.
func readFiles(path, confDir string) ([]lint.File, error) {
	if name := filepath.Base(path); name == slurmConf || name == cgroupConf { // judged beside the others
		return nil, fmt.Errorf("%s: want a topology file, gres.conf or the directory that has them", path)
	}
	if !exists(path) {
		return nil, fmt.Errorf("%s is not there: want a folder with files of Slurm, or one of these files", path)
	}
	paths := []string{path}
	if session.IsDirectory(path) {
		paths = nil
		for _, name := range slurmFiles {
			if p := filepath.Join(path, name); exists(p) {
				paths = append(paths, p)
			}
		}
	}
	out := make([]lint.File, len(paths))
	for i, p := range paths {
		var err error
		if out[i], err = readFile(p, confDir); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readFile reads one of Slurm's files, with the files that it includes.
func readFile(path, confDir string) (f lint.File, err error) {
	if f.Data, err = os.ReadFile(path); err != nil {
		return f, fmt.Errorf("read files: %w", err)
	}
	f.Name = path
	if !strings.HasSuffix(path, ".yaml") && !strings.HasSuffix(path, ".yml") {
		f.Data, f.Included = syntax.Join(path, f.Data, openIncluded(cmp.Or(confDir, filepath.Dir(path))))
	}
	return f, nil
}

// readPlan is what a topology file says, or a slurm.conf without one.
type readPlan struct {
	topology.Plan
	// trouble has a fatal finding if Slurm does not start with the file or does not read it, and an
	// unknown one if that is not known.
	trouble []topology.Finding
	// future are the nodes that the slurm.conf beside the file has as FUTURE.
	future map[string]bool
}

// readTopologies reads the topology file at a path: the file, or the one that the release would read
// in the directory. The slurm.conf of the directory counts, if there is one. Without a topology file the
// nodes of a slurm.conf may be flat.
func readTopologies(path string, pub *publication.Cluster) (*readPlan, error) {
	files, err := readFiles(path, "")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(files, func(f lint.File) bool {
		return isTopology(f) && (pub.Release.Does(slurmconf.TopologyYAML) || !strings.HasSuffix(f.Name, ".yaml"))
	})
	if i < 0 && slices.ContainsFunc(files, isTopology) {
		return nil, fmt.Errorf("%s: Slurm %s does not read topology.yaml, and there is no topology.conf: --slurm-version says the release", path, pub.Release)
	}
	options, out := lint.Options{Release: pub.Release}, &readPlan{future: map[string]bool{}}
	if beside := filepath.Join(path, slurmConf); exists(beside) {
		conf, err := readSlurmConf(beside)
		if err != nil {
			return nil, err
		}
		options = conf.Options(pub.Release)
		for _, node := range conf.Future {
			out.future[node] = true
		}
		if kind, known := pub.Release.TopologyPlugin(string(options.Plugin)); i < 0 && known && kind == topology.KindFlat {
			out.Topologies = []topology.Topology{{Name: topology.ConfTopology, Kind: kind, Default: true}}
			for _, node := range options.KnownNodes {
				out.Nodes = append(out.Nodes, topology.Placement{SlurmName: node})
			}
			return out, nil
		}
	}
	if i < 0 {
		return nil, fmt.Errorf("%s: no topology.yaml and no topology.conf in it", path)
	}
	plan, err := slurmconf.ReadPlan(files[i].Name, files[i].Data)
	if err != nil {
		return nil, located(files[i], err)
	}
	out.Plan = *plan
	for _, f := range lint.Lint(files[i:i+1], options) {
		switch {
		case f.Severity == topology.Fatal:
			out.trouble = []topology.Finding{{Severity: f.Severity, Message: fmt.Sprintf("Slurm does not take the files: %s; quoin lint says more", f)}}
			return out, nil
		case f.Severity == topology.Unknown && f.File != options.SlurmConf: // partitions do not matter here
			out.trouble = []topology.Finding{{Severity: f.Severity, Message: fmt.Sprintf("it is not known whether Slurm takes the files: %s; quoin lint says more", f)}}
		}
	}
	return out, nil
}

// located returns an error of a topology file with its place, which may be in an included file.
func located(f lint.File, err error) error {
	if f.Included != nil && len(f.Included.Unread) > 0 {
		return errors.New(f.Included.Unread[0].String())
	}
	if parse := (*syntax.ParseError)(nil); errors.As(err, &parse) {
		parse.File, parse.Line = f.Included.At(parse.File, parse.Line)
	}
	return err
}

// openIncluded opens files that others include. Names without a whole path are in dir, which is that
// of slurm.conf.
func openIncluded(dir string) syntax.Include {
	return func(file string) (string, []byte, error) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return file, nil, syntax.ErrNoFile
		case err != nil:
			return file, nil, err
		case !info.Mode().IsRegular() || info.Size() > maxIncluded:
			return file, nil, fmt.Errorf("%s is no file, or larger than %d MiB", file, maxIncluded>>20)
		}
		data, err := os.ReadFile(file)
		return file, data, err
	}
}

// maxIncluded bounds an included file.
const maxIncluded = 16 << 20
