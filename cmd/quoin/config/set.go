package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// SetFlag is the flag that sets any key.
const SetFlag = "--set"

// Setting is a value that the command line gives to a key.
type Setting struct {
	// Key is such as agent.runDir, publicationDefaults.format or publications.hgx.format.
	// publications.*.format is the key of all publications, whatever they say themselves.
	Key string
	// Value is the text of the value. A list is written with commas, pairs as a=b,c=d,
	// or both as in YAML.
	Value string
	// Flag is what was given: SetFlag, or a flag that sets this key only.
	Flag string
}

// ParseSetting splits key=value as it is given to SetFlag.
func ParseSetting(text string) (Setting, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return Setting{}, errors.New("want key=value, such as publisher.listen=:9836")
	}
	return Setting{key, value, SetFlag}, nil
}

// Given returns the flags of a file and of settings, for a command that is advised. There
// is a blank before each.
func Given(file string, settings []Setting) string {
	text := ""
	if file != "" {
		text = Flag("--config", file)
	}
	for _, s := range settings {
		value := s.Value
		if s.Flag == SetFlag {
			value = s.Key + "=" + s.Value
		}
		text += Flag(s.Flag, value)
	}
	return text
}

// plainWord is what bash and zsh read as it is. To zsh, a word that begins with = is a program.
var plainWord = regexp.MustCompile(`^[\w./:@%+,-][\w./:=@%+,-]*$`)

// Word returns a word as bash and zsh read it.
func Word(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Flag returns a blank, the flag, and its value as a shell reads it.
func Flag(flag, value string) string { return " " + flag + " " + Word(value) }

// set gives a key its value. A setting is read as a document with this key alone.
func (r *reader) set(c *Config, s Setting) error {
	var refused error
	for _, n := range s.values() {
		for _, name := range slices.Backward(strings.Split(s.Key, ".")) {
			n = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text(name), n}}
		}
		document, err := yaml.Marshal(n)
		if err == nil {
			err = plainKeys(n)
		}
		if err == nil {
			err = known(document)
		}
		if err == nil {
			r.flag = s.Flag
			return r.read(c, document)
		}
		refused = cmp.Or(refused, err)
	}
	r.flag = fmt.Sprintf("%s %s=%s", s.Flag, s.Key, s.Value)
	return r.located(refused, nil)
}

// values returns what the text of a setting may mean: what the key takes decides. It is the text
// as it is, or as YAML, or a list with commas, or pairs such as a=b,c=d, of texts or of numbers.
func (s *Setting) values() []*yaml.Node {
	forms := []string{s.Value, "[" + s.Value + "]", "{", "{"}
	for part := range strings.FieldsFuncSeq(s.Value, func(r rune) bool { return r == ',' }) {
		if key, value, ok := strings.Cut(part, "="); ok {
			forms[2] += fmt.Sprintf("%q: %q,", key, value)
			forms[3] += fmt.Sprintf("%q: %s,", key, value)
		} else {
			forms[2], forms[3] = "", "" // no pairs, and no YAML
		}
	}
	forms[2] += "}"
	forms[3] += "}"
	values := []*yaml.Node{text(s.Value)}
	for _, form := range forms {
		var n yaml.Node
		if yaml.Unmarshal([]byte(form), &n) == nil && n.Kind == yaml.DocumentNode {
			values = append(values, n.Content[0])
		}
	}
	return values
}

func text(value string) *yaml.Node {
	var n yaml.Node
	n.SetString(value)
	return &n
}
