package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/slinky"
	"github.com/quoin-hpc/quoin/test/rig/pages"
)

// slinkyPage is the page that the test follows.
const slinkyPage = "../../manifests/docs/slinky.md"

// page is a page for users that a test follows, in a folder that stands for a checkout.
type page struct {
	blocks []pages.Block
	dir    string
	// fill fills in what a reader fills in, and what is special about the simulated site.
	fill *strings.Replacer
	ran  map[int]bool // by line
}

// openPage reads the page. This site has more values of Slinky's.
func (w *world) openPage(more string) {
	w.t.Helper()
	blocks, err := pages.Read(slinkyPage)
	if err != nil {
		w.t.Fatal(err)
	}
	dir := w.checkout("checkout") // the steps share it
	for name, text := range map[string]string{"values.yaml": slinky.Values, "gres.yaml": slinky.GRES, "more.yaml": more, "box.yaml": boxValues} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	*w.page = page{blocks: blocks, dir: dir, ran: map[int]bool{}, fill: strings.NewReplacer(
		"REGISTRY/quoin", "quoin", "SLINKY_CHART", w.slurm.Chart(),
		"-f site.yaml", "-f site.yaml "+strings.Join(w.site(), " "), "-f slinky.yaml", "-f more.yaml -f slinky.yaml -f box.yaml", "-f values.yaml\n", "-f values.yaml -f gres.yaml\n")}
}

// checkout makes a folder that stands for a checkout, and returns its path.
func (w *world) checkout(name string) string {
	w.t.Helper()
	manifests, err := filepath.Abs("../../manifests")
	if err != nil {
		w.t.Fatal(err)
	}
	dir := filepath.Join(w.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(manifests, filepath.Join(dir, "manifests")); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// boxValues are what this site adds to Slinky's values of the page.
const boxValues = `
controller:
  extraConf: |
    TaskPlugin=task/none
    MpiDefault=none
    SlurmdParameters=config_overrides
    SlurmctldDebug=verbose
    SlurmdDebug=verbose
`

// follow does what the page says below a heading. It writes the files. It runs the commands; if
// the page shows what they print, it runs them until they print that.
func (w *world) follow(heading string) {
	w.t.Helper()
	p := w.page
	found := false
	for i, b := range p.blocks {
		if b.Heading != heading {
			continue
		}
		found = true
		switch {
		case b.NotRun != "":
		case b.Language == "yaml":
			p.write(w, b)
		case b.Language == "sh":
			begin := time.Now()
			if i+1 < len(p.blocks) && p.blocks[i+1].Language == "text" {
				p.look(w, b, p.blocks[i+1].Text)
			} else if out, err := p.run(w, b); err != nil {
				w.t.Fatalf("%s:%d: %v\n%s", slinkyPage, b.Line, err, out)
			}
			p.ran[b.Line] = true
			w.t.Logf("%s, line %d: %s", heading, b.Line, time.Since(begin).Round(time.Second))
		}
	}
	if !found {
		w.t.Fatalf("%s has no commands below %q", slinkyPage, heading)
	}
}

// write writes a file, whose first line names it.
func (p *page) write(w *world, b pages.Block) {
	w.t.Helper()
	name, _, _ := strings.Cut(b.Text, "\n")
	name, named := strings.CutPrefix(name, "# ")
	if !named {
		w.t.Fatalf("%s:%d: the file has no name", slinkyPage, b.Line)
	}
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(p.fill.Replace(b.Text)), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// run runs the commands of a block as one script.
func (p *page) run(w *world, b pages.Block) (string, error) {
	cmd := w.box.Shell(w.t.Context(), "PATH="+filepath.Dir(w.quoin)+":$PATH\n"+p.fill.Replace(b.Text))
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// look runs commands until they show what the page does.
func (p *page) look(w *world, b pages.Block, text string) {
	w.t.Helper()
	var out string
	var err error
	shown := shows(text)
	await.Until(w.t, slinkyPage+" shows:\n"+text, func() bool {
		out, err = p.run(w, b)
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			w.t.Fatal(err)
		}
		return shown.MatchString(out)
	}, func() string { return out }, func() string { return "it ended: " + errorText(err) })
}

func errorText(err error) string {
	if err == nil {
		return "well"
	}
	return err.Error()
}

// shows matches an output that has the lines of a text, in order. Blanks count as one, and ... stands
// for anything.
func shows(text string) *regexp.Regexp {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(line), " "); line != "" && line != "..." {
			line = strings.ReplaceAll(regexp.QuoteMeta(line), " ", `[ \t]+`)
			lines = append(lines, `[ \t]*`+strings.ReplaceAll(line, `\.\.\.`, `[^\n]*`)+`[ \t]*`)
		}
	}
	return regexp.MustCompile(`(?s)(?:^|\n)` + strings.Join(lines, `\n(?:.*\n)?`) + `(?:\n|$)`)
}

// allRan holds that no command of the page was left out.
func (w *world) allRan() {
	w.t.Helper()
	for _, b := range w.page.blocks {
		if b.Language == "sh" && b.NotRun == "" && !w.page.ran[b.Line] {
			w.t.Errorf("%s:%d: no step has run this", slinkyPage, b.Line)
		}
	}
}
