/** Returns the text as a Markdown code span on one line; the text may contain backticks. */
export function codeSpan(text: string): string {
  const line = joinLines(text.split(/[\r\n]+/));
  const longest = (line.match(/`+/g) ?? []).reduce((most, run) => Math.max(most, run.length), 0);
  const mark = '`'.repeat(longest + 1);
  const pad = line === '' || /^`|`$|^ .* $/.test(line) ? ' ' : '';
  return `${mark}${pad}${line}${pad}${mark}`;
}

/** Replaces each line break, with the blanks around it, by one space. */
function joinLines(lines: string[]): string {
  const last = lines.length - 1;
  return lines
    .map((line, index) => {
      const begun = index === 0 ? line : line.trimStart();
      return index === last ? begun : begun.trimEnd();
    })
    .filter((line, index) => line !== '' || index === 0 || index === last)
    .join(' ');
}
