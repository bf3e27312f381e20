/** Text as Markdown code on one line, whatever backticks it holds. */
export function codeSpan(text: string): string {
  const line = text.replace(/\s*[\r\n]+\s*/g, ' ');
  const longest = Math.max(0, ...(line.match(/`+/g) ?? []).map(run => run.length));
  const mark = '`'.repeat(longest + 1);
  const pad = line === '' || /^`|`$|^ .* $/.test(line) ? ' ' : '';
  return `${mark}${pad}${line}${pad}${mark}`;
}
