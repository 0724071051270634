// Command screenshots takes pictures of the page in a real Chromium, for people to look at and
// for the documentation. It plays the day of trouble of quoin demo up to one of its moments.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/cmd/quoin/demo"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/chromerig"
	"github.com/quoin-hpc/quoin/test/rig/logtext"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
)

// shot is one picture.
type shot struct {
	name, site string
	// until is the moment of the site's day that is not played any more.
	until  string
	colour string
	// choose is the node or job whose facts are shown.
	choose  string
	options chromerig.Options
}

const (
	day   = "topology/simulated/clusters/day-of-trouble.yaml"
	hgx   = "topology/simulated/clusters/hgx-h100.yaml"
	mixed = "topology/simulated/clusters/mixed.yaml"
)

var shots = []shot{
	{"page", day, "15:15", "health", "node: 'gb200-020'", chromerig.Options{Height: 800}},
	{"page-jobs", day, "15:15", "job", "job: '4210'", chromerig.Options{Height: 800, Dark: true}},
	{"dark", day, "15:15", "health", "node: 'gb200-020'", chromerig.Options{Dark: true}},
	{"jobs", day, "15:15", "job", "job: '4210'", chromerig.Options{}},
	{"slurm", day, "15:15", "slurm", "", chromerig.Options{}},
	{"imex", day, "08:25", "imex", "node: 'gb200-007'", chromerig.Options{}},
	{"segments", day, "15:15", "segments", "", chromerig.Options{}},
	{"print", day, "15:15", "health", "", chromerig.Options{Print: true}},
	{"mixed", mixed, "", "health", "", chromerig.Options{Height: 1200}},
	{"hgx", hgx, "", "health", "", chromerig.Options{Width: 1400, Height: 900}},
	{"phone", day, "15:15", "health", "node: 'gb200-020'", chromerig.Options{Width: 390, Height: 844}},
	{"phone-job", day, "15:15", "job", "job: '4210'", chromerig.Options{Width: 390, Height: 844, Dark: true}},
	{"phone-whole", day, "15:15", "slurm", "", chromerig.Options{Width: 390, Height: 3200}},
	{"wall", day, "15:15", "job", "job: '4210'", chromerig.Options{Width: 3840, Height: 2160}},
	{"large", "", "", "job", "", chromerig.Options{Height: 2700}},
	{"large-dark", "", "", "health", "", chromerig.Options{Height: 900, Dark: true}},
}

// large is a site of 10,008 nodes.
const large = `name: 556 racks
about: 10,008 nodes
groups:
- {name: gb200, racks: 556, nodes: 18, node: "gb200-{node:05}", nvlink: rack, platform: true, tiers: ["leaf-{rack:03}", "spine-{rack/8}"], gpus: {count: 4, product: NVIDIA GB200}}
`

func main() {
	out := flag.String("out", "bin/screenshots", "write the pictures into this `directory`")
	flag.Parse()
	if err := run(context.Background(), *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

// run takes the pictures with these names, or all of them.
func run(ctx context.Context, out string, names []string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for i := range shots {
		if s := &shots[i]; len(names) == 0 || strings.Contains(" "+strings.Join(names, " ")+" ", " "+s.name+" ") {
			if err := s.take(ctx, filepath.Join(out, s.name+".png")); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			fmt.Println(filepath.Join(out, s.name+".png"))
		}
	}
	return nil
}

// take serves the site and takes the picture.
func (s *shot) take(ctx context.Context, path string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work, err := os.MkdirTemp("", "screenshots-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	site, moments, err := s.cut(work)
	if err != nil {
		return err
	}
	clusters, err := publication.Compile([]publication.Publication{publication.Default()}, nil)
	if err != nil {
		return err
	}
	address := loopback.Address(9838)
	ended, said := make(chan error, 1), &logtext.Text{}
	playing, end := context.WithCancelCause(ctx)
	go func() {
		err := demo.Run(ctx, said, demo.Options{Site: site, Watch: moments, Page: address, Publication: clusters[0]})
		end(errors.New("the demo ended"))
		ended <- err
	}()
	err = await.NoError(playing, "play the day", func(context.Context) error {
		if !strings.Contains(said.String(), "The map stays there") {
			return errors.New("it is not over")
		}
		return nil
	})
	if err != nil {
		stop()
		return errors.Join(err, <-ended)
	}
	b, err := chromerig.Start(ctx, s.options)
	if err != nil {
		return err
	}
	defer b.Stop()
	err = s.show(b, "http://"+address+"/map") //nolint:contextcheck // the browser has one of its own
	if err == nil {
		var png []byte
		if png, err = b.Picture(); err == nil { //nolint:contextcheck // the browser has one of its own
			err = os.WriteFile(path, png, 0o644)
		}
	}
	stop()
	return errors.Join(err, <-ended)
}

// show opens the page at its last moment.
func (s *shot) show(b *chromerig.Browser, url string) error {
	for _, do := range []func() error{
		func() error { return b.Open(url) },
		func() error { return b.Wait("document.getElementById('status')?.textContent === 'live'") },
		func() error { return b.Choose("#colour", s.colour) },
		func() error {
			if s.choose == "" {
				return nil
			}
			return b.Eval(fmt.Sprintf("choose({%s})", s.choose), nil)
		},
		func() error { return b.Eval("document.activeElement.blur()", nil) },
		func() error {
			return b.Eval("document.querySelector('.n.chosen, .n.marked')?.scrollIntoView({block: 'nearest'})", nil)
		},
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// cut writes the site's file without what happens from a moment on. moments says whether
// anything happens.
func (s *shot) cut(dir string) (path string, moments bool, err error) {
	text := []byte(large)
	if s.site != "" {
		if text, err = os.ReadFile(s.site); err != nil {
			return "", false, err
		}
	}
	kept, _, found := strings.Cut(string(text), fmt.Sprintf("  - at: %q\n", s.until))
	path = filepath.Join(dir, "site.yaml")
	return path, found, os.WriteFile(path, []byte(kept), 0o644)
}
