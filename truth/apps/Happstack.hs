{-# LANGUAGE TemplateHaskell #-}
{-# LANGUAGE TypeFamilies #-}
-- A stock of valves in the memory of its server, by Happstack and acid-state: Happstack PORT DIRECTORY HABIT.
module Main (main) where

import Control.Concurrent (forkIO, threadDelay)
import Control.Monad (forever, void, when)
import Control.Monad.Reader (asks)
import Control.Monad.State (modify)
import Data.Acid (AcidState, Query, Update, createCheckpoint, makeAcidic, openLocalStateFrom)
import Data.Acid.Advanced (query', update')
import qualified Data.IntMap.Strict as M
import Data.SafeCopy (base, deriveSafeCopy)
import Happstack.Server (Conf (..), ServerPart, bindIPv4, nullConf, ok, simpleHTTPWithSocket, toResponse)
import Network.Socket (SocketOption (NoDelay), setSocketOption)
import System.Environment (getArgs)

data Valve = Valve {hall :: Int, name :: String, turns :: Int}

-- The valves by their numbers, the numbers by their halls, and how often the page of each hall was seen.
data Stock = Stock {valves :: M.IntMap Valve, halls :: M.IntMap [Int], seen :: M.IntMap Int}

deriveSafeCopy 0 'base ''Valve
deriveSafeCopy 0 'base ''Stock

-- What of each valve of a hall is on its page.
byHall :: Int -> Query Stock [String]
byHall number = asks $ \stock -> [name $ valves stock M.! valve | valve <- M.findWithDefault [] number $ halls stock]

count :: Int -> Update Stock ()
count number = modify $ \stock -> stock {seen = M.insertWith (+) number 1 $ seen stock}

makeAcidic ''Stock ['byHall, 'count]

amount, hallsOfAll :: Int
amount = 20000
hallsOfAll = 1000

filled :: Stock
filled = Stock (M.fromList all') (M.fromListWith (++) [(hall valve, [n]) | (n, valve) <- all']) M.empty
  where
    all' = [(n, Valve (n `mod` hallsOfAll) ("valve " ++ show n) 0) | n <- [1 .. amount]]

page :: AcidState Stock -> String -> ServerPart String
page stock habit = do
    names <- query' stock $ ByHall 7
    when (habit == "counted") $ update' stock (Count 7)
    ok $ unlines names

-- What was changed is in the log; now and then all of it is written as it is.
kept :: AcidState Stock -> Int -> IO ()
kept stock seconds = void . forkIO . forever $ threadDelay (seconds * 1000000) >> createCheckpoint stock

main :: IO ()
main = do
    [port, directory, habit] <- getArgs
    stock <- openLocalStateFrom directory filled
    kept stock $ if habit == "kept-each-second" then 1 else 86400
    let conf = nullConf {port = read port, logAccess = Nothing}
    socket <- bindIPv4 "127.0.0.1" (read port)
    -- Those that it accepts have this from it; a head and what follows it are written one after the other.
    when (habit /= "delayed") $ setSocketOption socket NoDelay 1
    simpleHTTPWithSocket socket conf $ toResponse <$> page stock habit
