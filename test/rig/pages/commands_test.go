package pages_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/pages"
)

func TestCallsOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want [][]string
	}{
		"a line in two":     {"quoin fit -N 4 \\\n  --segment 2\n", [][]string{{"fit", "-N", "4", "--segment", "2"}}},
		"a pipe and a list": {"kubectl get nodes -o json | quoin map --nodes - && bin/quoin doctor; quoin job", [][]string{{"map", "--nodes", "-"}, {"doctor"}, {"job"}}},
		"in a pod":          {"kubectl -n quoin-node exec POD -- quoin job", [][]string{{"job"}}},
		"a comment":         {"# quoin one\nquoin two # quoin three\n", [][]string{{"two"}}},
		"quotes":            {`quoin plan approve "a b" 'c d'` + "\n", [][]string{{"plan", "approve", "a b", "c d"}}},
		"a substitution":    {`sacctmgr set AdminComment="$(quoin job 7 -o json)"` + "\nX=$(quoin version)\n", [][]string{{"job", "7", "-o", "json"}, {"version"}}},
		"as root":           {"sudo /usr/bin/quoin doctor\nKUBECONFIG=x quoin map", [][]string{{"doctor"}, {"map"}}},
		"here-documents":    {"kubectl apply -f - <<'END' | quoin job\nquoin no\n  END\nquoin map <<-X\n\tX\nquoin doctor\n", [][]string{{"job"}, {"map"}, {"doctor"}}},
		"no call":           {"ls quoin\nhelm upgrade quoin manifests/chart\n./quoin-hook prolog\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := pages.Block{Text: c.text}.CallsOf("quoin")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
	for _, text := range []string{"echo 'open", "echo $(open", `echo "$(open"`, "cat <<END\nquoin x\n"} {
		if got, err := (pages.Block{Text: text}).CallsOf("quoin"); err == nil {
			t.Errorf("%q: %v, and no error", text, got)
		}
	}
}
