// Copyright: Contributors to the wattwise.kube project
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The program reads texts (a JSON array of strings) from the standard input and writes what
// sigs.k8s.io/yaml makes of each: {"text": …, "json": …} or {"text": …, "error": …}, one a line.
//
// It needs a module of its own, in another folder:
//
//	go mod init oracle && go get sigs.k8s.io/yaml@v1.6.0
//	python yaml_corpus.py | go run . > answers.jsonl
package main

import (
	"encoding/json"
	"log"
	"os"

	"sigs.k8s.io/yaml"
)

type answer struct {
	Text  string `json:"text"`
	JSON  string `json:"json,omitempty"`
	Error string `json:"error,omitempty"`
}

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		log.Fatal(err)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	for _, text := range texts {
		given := answer{Text: text}
		if read, err := yaml.YAMLToJSON([]byte(text)); err != nil {
			given.Error = err.Error()
		} else {
			given.JSON = string(read)
		}
		if err := encoder.Encode(given); err != nil {
			log.Fatal(err)
		}
	}
}
