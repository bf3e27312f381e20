#!/usr/bin/env node
// Checks the Node version before it imports anything: the other modules do not load on an older Node.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
const isAtLeast = (neededMinor: number) => major > 22 || (major === 22 && minor >= neededMinor);
const isTypeScript = process.argv.some((word, at) => {
  const isAgent = word.startsWith('--agent=') || process.argv[at - 1] === '--agent';
  return isAgent && /\.[cm]?ts$/.test(word);
});

if (!isAtLeast(13)) {
  process.stderr.write(`agentchart needs Node 22.13 or later; this is Node ${process.versions.node}.\n`);
  process.exitCode = 2;
} else if (isTypeScript && !isAtLeast(18)) {
  process.stderr.write(
    `An agent module in TypeScript needs Node 22.18 or later; this is Node ${process.versions.node}. Compile it to JavaScript, or upgrade Node.\n`,
  );
  process.exitCode = 2;
} else {
  // Deno has no such cache.
  process.getBuiltinModule('node:module').enableCompileCache?.();
  const { runProgram } = await import('./program.ts');
  process.exitCode = await runProgram(process.argv.slice(2));
}

export {};
