package pages_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/pages"
	"github.com/quoin-hpc/quoin/test/rig/put"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, err string
		want      []pages.Block
	}{
		"blocks": {
			text: "# Page\n\n```sh\necho \\\n  one\n```\n## Next\n<!-- not run: needs a GPU -->\n```text\n# no heading\n```\n",
			want: []pages.Block{
				{Heading: "Page", Line: 3, Language: "sh", Text: "echo \\\n  one\n"},
				{Heading: "Next", Line: 9, Language: "text", Text: "# no heading\n", NotRun: "needs a GPU"},
			},
		},
		"no language":          {text: "```\n```\n", err: ":1: the block names no language"},
		"no end":               {text: "\n```sh\n", err: ":2: the block has no end"},
		"reason without block": {text: "<!-- not run: why -->\n\n```sh\n```\n", err: `:1: "why" stands above no block`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "page.md")
			put.File(t, file, c.text, 0o600)
			got, err := pages.Read(file)
			said := ""
			if err != nil {
				said = err.Error()[len(file):]
			}
			if said != c.err {
				t.Errorf("error %q, want %q", said, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("blocks (-want +got):\n%s", diff)
			}
		})
	}
}
