# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx's settings for the site."""

from __future__ import annotations

from pathlib import Path

project = html_title = "wattwise.kube"
copyright = "Contributors to the wattwise.kube project"  # noqa: A001 - Sphinx reads this name
extensions = ["myst_parser", "sphinx.ext.intersphinx", "sphinx_antsibull_ext"]
intersphinx_mapping = {
    "ansible": ("https://docs.ansible.com/projects/ansible/latest/", "ansible.inv")
}
html_theme = "furo"
html_static_path = [str(Path(__file__).with_name("static"))]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
# Pages opened from the file system may not fetch others, so results show titles only.
html_show_search_summary = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6b4f", "color-brand-content": "#0b6b4f"},
    "dark_css_variables": {"color-brand-primary": "#5fd0a5", "color-brand-content": "#5fd0a5"},
}
# Anchors as on GitHub, for all headings.
myst_heading_anchors = 6
myst_enable_extensions = ["html_image"]
smartquotes = False
