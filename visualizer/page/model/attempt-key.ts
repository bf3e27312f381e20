/** Names an attempt of a turn: `turn/attempt`. */
export const attemptKey = ({ turn, attempt }: { turn: number; attempt: number }): string =>
  `${turn}/${attempt}`;
