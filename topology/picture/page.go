package picture

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the page's template, style and script
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/quoin-hpc/quoin/topology"
)

//go:embed page.tmpl
var pageText string

//go:embed page.css
var style string

//go:embed page.js
var script string

//go:embed live.js
var liveScript string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// HTML writes a page that needs nothing beside it: the racks, with the facts of each node, a
// search, and what is wrong.
func HTML(w io.Writer, s *Site) error {
	v, err := ViewOf(s)
	if err != nil {
		return err
	}
	return v.Page(w, PageOptions{})
}

// PageOptions say what a server adds to the page.
type PageOptions struct {
	// DataAddress is where the page asks for the view of now. Empty: nothing changes.
	DataAddress string
	// Publications are all names that the page's address takes as ?publication=NAME.
	Publications []string
}

// Policy is the Content-Security-Policy of the page: its own style and script by their
// digests, and questions to its own server.
func Policy() string {
	return fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'", digestOf(style), digestOf(script+liveScript))
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// shown is what the template sees.
type shown struct {
	*View
	PageOptions
	Style  template.CSS
	Script template.JS
	// Remedies say what to do, by reason word.
	Remedies map[string]string
	Policy   string // of a page without a server that sends it
}

// Page writes the page.
func (v *View) Page(w io.Writer, o PageOptions) error {
	s := shown{View: v, PageOptions: o, Style: template.CSS(style), Script: template.JS(script + liveScript), Remedies: map[string]string{}} //nolint:gosec // our own files
	for _, c := range topology.Reasons {
		for _, word := range c.Words {
			if word.Remedy != "" {
				s.Remedies[word.Reason] = word.Remedy
			}
		}
	}
	if o.DataAddress == "" {
		s.Policy = Policy()
	}
	out := bufio.NewWriterSize(w, 1<<16) // a template writes each word
	err := pageTemplate.Execute(out, s)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("draw the page: %w", err)
	}
	return nil
}
