/** The longest line about an error, in characters. */
const LONGEST = 300;

/**
 * One line about an error of the SDK. The text after the first brace or bracket is omitted: the SDK quotes messages
 * of clients there, which may have the answers of people.
 */
export function logError(error: Error, log: (line: string) => void): void {
  const [said = ''] = error.message.split(/[[{]/, 1);
  log(`MCP: ${said.replace(/\s+/g, ' ').trim().slice(0, LONGEST) || 'a message that is not valid'}`);
}
