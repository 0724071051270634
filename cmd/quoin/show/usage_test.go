package show

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// tool has a command with an argument, and a group of two commands.
func tool() *cobra.Command {
	run := func(cmd *cobra.Command, _ []string) error { return errors.New("ran " + cmd.CommandPath()) }
	group := &cobra.Command{Use: "plan COMMAND"}
	group.AddCommand(&cobra.Command{Use: "approve DIGEST", Args: cobra.ExactArgs(1), RunE: run}, &cobra.Command{Use: "status", Args: cobra.NoArgs, RunE: run})
	root := &cobra.Command{Use: "tool COMMAND", SilenceErrors: true, SilenceUsage: true}
	read := &cobra.Command{Use: "read FILE...", RunE: run}
	read.Flags().IntP("lines", "n", 0, "")
	read.Flags().Bool("all", false, "")
	read.Flags().Duration("timeout", 0, "")
	read.Flags().Func("set", "", func(string) error { return errors.New("want key=value") })
	read.MarkFlagsMutuallyExclusive("all", "lines")
	root.AddCommand(group, read)
	CommandGroup(group)
	CommandGroup(root)
	ExplainUsage(root)
	return root
}

func TestExplainUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"plan approve x", "ran tool plan approve"},
		{"read a b", "ran tool read"},
		{"rad a", `unknown command "rad" for "tool", perhaps read: want tool COMMAND; see tool --help`},
		{"bogus", `unknown command "bogus" for "tool": want tool COMMAND; see tool --help`},
		{"plan sttus", `unknown command "sttus" for "tool plan", perhaps status: want tool plan COMMAND; see tool plan --help`},
		{"plan status now", `unknown command "now" for "tool plan status": want tool plan status; see tool plan status --help`},
		{"plan approve", "accepts 1 arg(s), received 0: want tool plan approve DIGEST; see tool plan approve --help"},
		{"plan approve --by x", "unknown flag: --by; see tool plan approve --help"},
		{"read -n x a", `--lines "x": want a whole number; see tool read --help`},
		{"read --all=x a", `--all "x": want true or false; see tool read --help`},
		{"read --timeout 5 a", `--timeout "5": want a time such as 30s or 5m; see tool read --help`},
		{"read --set x a", `--set "x": want key=value; see tool read --help`},
		{"read --all -n 3 a", "--all beside --lines: want one of them; see tool read --help"},
		{"", "<nil>"},
		{"plan", "<nil>"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			root := tool()
			var help bytes.Buffer
			root.SetOut(&help)
			root.SetArgs(strings.Fields(tt.args))
			if diff := cmp.Diff(tt.want, fmt.Sprint(root.Execute())); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			want := ""
			if tt.want == "<nil>" {
				want = strings.TrimSpace("tool "+tt.args) + " [command]"
			}
			if lines := strings.Split(help.String()+"\n\n", "\n"); strings.TrimSpace(lines[1]) != want {
				t.Errorf("help %q, want the usage %q", help.String(), want)
			}
		})
	}
}
