package pages

import (
	"fmt"
	"strings"
)

// Commands returns the simple commands of a block of shell, each as its words without quotes. The
// commands of pipes, lists and $(...) count too. It knows what pages have, and refuses what has no end.
func (b Block) Commands() ([][]string, error) {
	var commands [][]string
	var words []string
	var word strings.Builder
	inWord := false
	endWord := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	text := b.Text
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] != '\n' {
				word.WriteByte(text[i])
				inWord = true
			}
		case c == '\'' || c == '"':
			length := strings.IndexByte(text[i+1:], c)
			if length < 0 {
				return nil, fmt.Errorf("line %d: a quote has no end", b.Line)
			}
			quoted := text[i+1 : i+1+length]
			if c == '"' {
				inner, err := substituted(Block{Line: b.Line, Text: quoted})
				if err != nil {
					return nil, err
				}
				commands = append(commands, inner...)
			}
			word.WriteString(quoted)
			inWord, i = true, i+1+length
		case strings.HasPrefix(text[i:], "<<"):
			rest, found := withoutHereDocument(text[i+2:])
			if !found {
				return nil, fmt.Errorf("line %d: a here-document has no end", b.Line)
			}
			text, i = rest, -1
		case strings.HasPrefix(text[i:], "$("):
			length := strings.IndexByte(text[i:], ')')
			if length < 0 {
				return nil, fmt.Errorf("line %d: $( has no end", b.Line)
			}
			inner, err := Block{Line: b.Line, Text: text[i+2 : i+length]}.Commands()
			if err != nil {
				return nil, err
			}
			commands = append(commands, inner...)
			word.WriteString(text[i : i+length+1])
			inWord, i = true, i+length
		case c == '#' && !inWord:
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case strings.IndexByte("\n;|&()", c) >= 0:
			endCommand()
		case c == ' ' || c == '\t':
			endWord()
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	endCommand()
	return commands, nil
}

// withoutHereDocument takes the text behind << and returns it without the delimiter and the document.
func withoutHereDocument(text string) (rest string, found bool) {
	line, below, _ := strings.Cut(text, "\n")
	line = strings.TrimLeft(line, "- ")
	end := strings.IndexAny(line+" ", " |;&)")
	delimiter, line := strings.Trim(line[:end], `'"`), line[end:]
	for below != "" {
		var in string
		in, below, _ = strings.Cut(below, "\n")
		if strings.TrimSpace(in) == delimiter {
			return line + "\n" + below, true
		}
	}
	return "", false
}

// substituted returns the commands of each $(...) in a text.
func substituted(b Block) ([][]string, error) {
	var commands [][]string
	for rest := b.Text; ; {
		_, inside, found := strings.Cut(rest, "$(")
		if !found {
			return commands, nil
		}
		inside, rest, found = strings.Cut(inside, ")")
		if !found {
			return nil, fmt.Errorf("line %d: $( has no end", b.Line)
		}
		inner, err := Block{Line: b.Line, Text: inside}.Commands()
		if err != nil {
			return nil, err
		}
		commands = append(commands, inner...)
	}
}

// CallsOf returns the arguments of each call of a program in a block: by its name, by a path, and after
// the -- of kubectl exec.
func (b Block) CallsOf(program string) ([][]string, error) {
	commands, err := b.Commands()
	if err != nil {
		return nil, err
	}
	var calls [][]string
	for _, words := range commands {
		for i, word := range words {
			if i > 0 && words[i-1] != "--" && words[i-1] != "sudo" && !strings.Contains(words[i-1], "=") {
				continue
			}
			if word == program || strings.HasSuffix(word, "/"+program) {
				calls = append(calls, words[i+1:])
				break
			}
		}
	}
	return calls, nil
}
