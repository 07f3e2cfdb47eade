//! Connections of a thread under numbers that are never given twice.
//!
//! An event or a timer may speak of a connection that has gone since, and whose place another one has
//! taken. A [`Token`] therefore holds the place and how often it was given away.

/// Name of one thing in [`Slots`], as the 64 bits that the kernel carries with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);

impl Token {
    fn new(place: usize, generation: u32) -> Self {
        // Descriptors are 31-bit numbers: so are places.
        Self((u64::from(generation) << 32) | place as u64)
    }

    /// Its place, for whoever knows that the thing has not gone.
    pub fn number(self) -> u32 {
        (self.0 & 0xffff_ffff) as u32
    }

    fn place(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Things by [`Token`].
#[derive(Debug)]
pub struct Slots<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<usize>,
}

impl<T> Slots<T> {
    /// Empty.
    pub fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Takes `thing` in.
    pub fn insert(&mut self, thing: T) -> Token {
        match self.free.pop() {
            Some(place) => {
                self.places[place].1 = Some(thing);
                Token::new(place, self.places[place].0)
            }
            None => {
                self.places.push((0, Some(thing)));
                Token::new(self.places.len() - 1, 0)
            }
        }
    }

    /// The name of what is at this place, if there is something.
    pub fn token_at(&self, number: u32) -> Option<Token> {
        let place = number as usize;
        let (generation, thing) = self.places.get(place)?;
        thing.as_ref().map(|_| Token::new(place, *generation))
    }

    /// What is at this place.
    pub fn at(&self, number: u32) -> Option<&T> {
        self.places.get(number as usize)?.1.as_ref()
    }

    /// The thing, unless it has gone.
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        match self.places.get_mut(token.place()) {
            Some((generation, thing)) if *generation == token.generation() => thing.as_mut(),
            _ => None,
        }
    }

    /// Takes the thing out.
    pub fn remove(&mut self, token: Token) -> Option<T> {
        self.get_mut(token)?;
        let (generation, thing) = &mut self.places[token.place()];
        // The highest generations stay unused, so that no token equals a number with a meaning of its own.
        *generation = (*generation + 1) & (u32::MAX >> 1);
        self.free.push(token.place());
        thing.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_token_does_not_reach_the_successor() {
        let mut slots = Slots::new();
        let (a, b) = (slots.insert('a'), slots.insert('b'));
        assert_eq!(slots.remove(a), Some('a'));
        assert_eq!(slots.remove(a), None);
        let c = slots.insert('c');
        assert_eq!(c.place(), a.place());
        assert_eq!(slots.get_mut(a), None);
        assert_eq!(slots.get_mut(c), Some(&mut 'c'));
        assert_eq!(slots.get_mut(b), Some(&mut 'b'));
        assert_eq!(slots.get_mut(Token(99)), None);
    }
}
